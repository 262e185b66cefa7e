"""Reductions by functions: XlaReduce, XlaVariadicReduce(V2) and XlaReduceWindow.

Semantics: the Reduce and ReduceWindow operations of XLA (openxla.org/xla/operation_semantics). XLA
does not specify the order in which elements are combined; here, neighbours are combined pairwise.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.xla._computation import function_of
from graphmill_plugins.kernels.xla._windows import Windows, taps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import FuncAttr, OpKernelContext, Value
    from graphmill_plugins.kernels.xla._computation import Computation


def _check(inputs: Sequence[Value], init_values: Sequence[Value], dims: Sequence[int]) -> None:
    shapes = {np.shape(value) for value in inputs}
    if len(inputs) != len(init_values) or len(shapes) != 1:
        raise InvalidArgumentError(
            "there must be one init_value for each input, and inputs of one shape; got "
            f"{len(inputs)} of {', '.join(map(shape_text, sorted(shapes)))} and {len(init_values)}"
        )
    if any(np.ndim(value) for value in init_values):
        raise InvalidArgumentError("init_values must be scalars")
    rank = np.ndim(inputs[0])
    if len(set(dims)) != len(dims) or any(not 0 <= axis < rank for axis in dims):
        raise InvalidArgumentError(
            f"dimensions_to_reduce {list(dims)} must be distinct and less than the rank {rank}"
        )


def _reduced(
    inputs: Sequence[Value], init_values: Sequence[Value], dims: Sequence[int], combine: Computation
) -> list[Value]:
    _check(inputs, init_values, dims)
    if not dims:
        return list(inputs)
    shape = inputs[0].shape
    remaining = [axis for axis in range(len(shape)) if axis not in dims]
    sizes = tuple(shape[axis] for axis in remaining)
    count = math.prod(shape[axis] for axis in dims)
    order = (*sorted(dims), *remaining)
    parts = [np.transpose(value, order).reshape((count, *sizes)) for value in inputs]
    while len(parts[0]) > 1:
        even = len(parts[0]) // 2 * 2
        combined = combine(*(x[0:even:2] for x in parts), *(x[1:even:2] for x in parts))
        parts = [np.concatenate([y, x[even:]]) for x, y in zip(parts, combined, strict=True)]
    first = [np.broadcast_to(value, sizes) for value in init_values]
    return combine(*first, *(x[0] for x in parts)) if count else first


@kernel("XlaReduce", stateful=True, effects=())
def xla_reduce(
    ctx: OpKernelContext,
    value: Value,
    init_value: Value,
    dimensions_to_reduce: tuple[int, ...],
    reducer: FuncAttr,
) -> Value:
    """Combine an initial value with the elements along dimensions.

    Raises:
        InvalidArgumentError: a dimension is out of range.
    """
    combine = function_of(ctx, "reducer", reducer)
    return _reduced([value], [init_value], dimensions_to_reduce, combine)[0]


@kernel("XlaVariadicReduce", "XlaVariadicReduceV2", stateful=True, effects=())
def xla_variadic_reduce(
    ctx: OpKernelContext,
    inputs: list[Value],
    init_values: list[Value],
    dimensions_to_reduce: tuple[int, ...],
    reducer: FuncAttr,
) -> Any:
    """Combine elements of several tensors, by a function of two scalars for each tensor."""
    combine = function_of(ctx, "reducer", reducer)
    return _reduced(inputs, init_values, dimensions_to_reduce, combine)


@kernel("XlaReduceWindow", stateful=True, effects=())
def xla_reduce_window(
    ctx: OpKernelContext,
    value: Value,
    init_value: Value,
    window_dimensions: Value,
    window_strides: Value,
    base_dilations: Value,
    window_dilations: Value,
    padding: Value,
    computation: FuncAttr,
) -> Value:
    """Combine the elements of each window; padding and dilation holes are ignored.

    Raises:
        InvalidArgumentError: the window does not match the input's rank.
    """
    windows = Windows.of(
        value.shape, window_dimensions, window_strides, padding, base_dilations, window_dilations
    )
    combine = function_of(ctx, "computation", computation)
    if np.ndim(init_value):
        raise InvalidArgumentError("init_value must be a scalar")
    total = np.broadcast_to(init_value, windows.shape)
    for tap in taps(windows.window):
        indices, inside = windows.element_indices(tap)
        if inside.any():
            (combined,) = combine(total, value.reshape(-1)[indices])
            total = np.where(inside, combined, total)
    return total
