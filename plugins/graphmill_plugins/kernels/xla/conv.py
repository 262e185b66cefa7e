"""XlaConv and XlaConvV2: convolutions of any layout, stride, padding, dilation and grouping.

Semantics: the ConvWithGeneralPadding operation of XLA (openxla.org/xla/operation_semantics). The
message `ConvolutionDimensionNumbers` of xla/xla_data.proto gives the role of each dimension.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._strings import encode
from graphmill_plugins.kernels._support import (
    accumulator,
    check_size,
    scalar_int,
    shape_text,
    to_ints,
)
from graphmill_plugins.kernels.xla._message import read_numbers
from graphmill_plugins.kernels.xla._windows import padding_pairs, taps
from graphmill_plugins.kernels.xla.ops import xla_pad

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Value

Fields = Mapping[str, tuple[int, int, int]]
"""The message fields of each tensor's batch (or output feature), feature and spatial dimensions."""

_FIELDS: Fields = {"lhs": (7, 8, 11), "rhs": (4, 3, 6), "output": (9, 10, 12)}
_STATIC = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation"),
    "feature_group_count",
)


class Window(NamedTuple):
    """The strides, padding and dilations of a kernel, for each spatial dimension."""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]


def layouts_of(message: bytes, rank: int, fields: Fields, name: str) -> dict[str, tuple[int, ...]]:
    """Return for each tensor its dimensions in the order batch, feature, spatial.

    Args:
        message: the serialized message.
        rank: the rank of all tensors.
        fields: the numbers of the message's fields.
        name: the type of the message, for errors.

    Raises:
        InvalidArgumentError: the message cannot be parsed, or does not list each dimension once.
    """
    numbers = read_numbers(message, name, max(map(max, fields.values())))
    layouts = {}
    for tensor, (first, second, spatial) in fields.items():
        pair = [(numbers[field - 1] or [0])[-1] for field in (first, second)]
        layouts[tensor] = (*pair, *numbers[spatial - 1])
        if sorted(layouts[tensor]) != list(range(rank)):
            raise InvalidArgumentError(
                f"dimension_numbers must name each of the {rank} dimensions of {tensor} once, got "
                f"{list(layouts[tensor])}"
            )
    return layouts


def _window(rank: int, strides: Value, padding: Value, *dilations: Value) -> Window:
    if any(value.ndim != 1 for value in (strides, *dilations)):
        raise InvalidArgumentError("strides and dilations must be vectors")
    numbers = [to_ints(value) for value in (strides, *dilations)]
    if any(len(values) != rank or min(values, default=1) < 1 for values in numbers):
        raise InvalidArgumentError(
            f"strides and dilations must be {rank} positive numbers each, got "
            f"{[list(values) for values in numbers]}"
        )
    return Window(numbers[0], padding_pairs(padding, rank), numbers[1], numbers[2])


def _spread(xp: ArrayNamespace, x: Value, padding: Any, dilation: Sequence[int]) -> Value:
    """Pad the spatial dimensions, and insert zeros between their elements."""
    amounts = [(0, 0, 0)] * 2
    amounts += [(low, high, by - 1) for (low, high), by in zip(padding, dilation, strict=True)]
    low, high, inner = np.array(amounts, np.int64).T
    return xla_pad(xp, x, np.zeros((), x.dtype), low, high, inner)


def _taps(xp: ArrayNamespace, x: Value, w: Value, window: Window, groups: int) -> Value:
    """Convolve [batch, feature, …] with [output, feature, …] to [batch, output, spatial…]."""
    kernel_sizes = w.shape[2:]
    reach = [(n - 1) * by + 1 for n, by in zip(kernel_sizes, window.rhs_dilation, strict=True)]
    sizes = [
        max(0, (full - span) // step + 1)
        for full, span, step in zip(x.shape[2:], reach, window.strides, strict=True)
    ]
    batch, features, outputs = len(x), x.shape[1] // groups, len(w) // groups
    shape = (batch, groups, outputs, math.prod(sizes))
    check_size(shape, "the convolution", itemsize=x.dtype.itemsize)
    total = xp.zeros(shape, x.dtype)
    if not total.size:
        return total.reshape((batch, groups * outputs, *sizes))
    multiply = matmul_of(xp)
    for tap in taps(kernel_sizes):
        begins = [index * by for index, by in zip(tap, window.rhs_dilation, strict=True)]
        cut = tuple(
            slice(begin, begin + (size - 1) * step + 1, step)
            for begin, size, step in zip(begins, sizes, window.strides, strict=True)
        )
        part = x[(slice(None), slice(None), *cut)].reshape((batch, groups, features, -1))
        weights = w[(slice(None),) * 2 + tap].reshape((groups, outputs, features))
        total = total + multiply(weights, part)
    return total.reshape((batch, groups * outputs, *sizes))


def _check_groups(x: Value, w: Value, groups: int, batches: int) -> None:
    fits = (
        groups >= 1
        and batches >= 1
        and min(groups, batches) == 1
        and x.shape[1] == w.shape[1] * groups
        and len(w) % (groups * batches) == 0
        and len(x) % batches == 0
    )
    if not fits:
        raise InvalidArgumentError(
            f"{groups} groups of features and {batches} of batches do not fit operands of "
            f"[batch, feature, …] {shape_text(x.shape)} and [output, feature, …] "
            f"{shape_text(w.shape)}"
        )


def convolved(
    xp: ArrayNamespace, x: Value, w: Value, window: Window, groups: int, batches: int
) -> Value:
    """Convolve [batch, feature, …] with [output, feature, …] to [batch, output, spatial…].

    Args:
        xp: the array namespace.
        x: the input.
        w: the filters, of the same type.
        window: the strides, padding and dilations.
        groups: the number of groups of features.
        batches: the number of groups of batches.

    Raises:
        InvalidArgumentError: the groups do not fit the shapes.
    """
    _check_groups(x, w, groups, batches)
    x = _spread(xp, x, window.padding, window.lhs_dilation)
    inputs, filters = xp.split(x, batches), xp.split(w, batches)
    parts = [_taps(xp, *pair, window, groups) for pair in zip(inputs, filters, strict=True)]
    return parts[0] if batches == 1 else xp.concatenate(parts, axis=1)


def _convolution(
    xp: ArrayNamespace, dimension_numbers: str, dtype: np.dtype[Any], batches: int
) -> Callable[..., Value]:
    """Return a convolution for a layout, an accumulation type and a number of batch groups."""
    message = encode(dimension_numbers)

    def convolve(
        lhs: Value,
        rhs: Value,
        window_strides: Value,
        padding: Value,
        lhs_dilation: Value,
        rhs_dilation: Value,
        feature_group_count: Value,
    ) -> Value:
        if lhs.ndim != rhs.ndim or lhs.ndim < 2:
            raise InvalidArgumentError(
                "operands must have the same rank of at least 2, got shapes "
                f"{shape_text(lhs.shape)} and {shape_text(rhs.shape)}"
            )
        layouts = layouts_of(message, lhs.ndim, _FIELDS, "ConvolutionDimensionNumbers")
        moves = _window(lhs.ndim - 2, window_strides, padding, lhs_dilation, rhs_dilation)
        groups = scalar_int("feature_group_count", feature_group_count)
        wide = accumulator(dtype)
        x = xp.transpose(lhs, layouts["lhs"]).astype(wide)
        w = xp.transpose(rhs, layouts["rhs"]).astype(wide)
        result = convolved(xp, x, w, moves, groups, batches)
        return xp.transpose(result, np.argsort(layouts["output"])).astype(dtype)

    return convolve


@kernel("XlaConv", static=_STATIC, make=True, expensive=True)
def xla_conv(
    xp: ArrayNamespace, *, dimension_numbers: str, T: np.dtype[Any]
) -> Callable[..., Value]:
    """Convolve tensors with the layouts in `dimension_numbers`.

    Raises:
        InvalidArgumentError: shapes, window and dimension numbers do not match.
    """
    return _convolution(xp, dimension_numbers, T, 1)


@kernel("XlaConvV2", static=_STATIC, make=True, expensive=True)
def xla_conv_v2(
    xp: ArrayNamespace,
    *,
    dimension_numbers: str,
    preferred_element_type: np.dtype[Any],
    batch_group_count: int,
) -> Callable[..., Value]:
    """Convolve operands of two types, with sums in `preferred_element_type`."""
    return _convolution(xp, dimension_numbers, preferred_element_type, batch_group_count)
