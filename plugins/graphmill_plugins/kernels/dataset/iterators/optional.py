"""Kernels of optionals: variants that hold an element or nothing.

Semantics: tensorflow/core/kernels/data/optional_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.dataset.iterators._optional import Optional, optional_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value


@kernel("OptionalFromValue", stateful=True)
def optional_from_value(
    ctx: OpKernelContext, components: list[Value], Toutput_types: Sequence[Any]
) -> Optional:
    """Return an optional with values."""
    del ctx
    return Optional(tuple(components), [as_dtype(dtype) for dtype in Toutput_types])


@kernel("OptionalNone", stateful=True)
def optional_none(ctx: OpKernelContext) -> Optional:
    """Return an empty optional."""
    del ctx
    return Optional()


@kernel("OptionalHasValue", stateful=True)
def optional_has_value(ctx: OpKernelContext, optional: Value) -> Value:
    """Return whether an optional has a value."""
    del ctx
    return np.bool_(optional_of(optional).values is not None)


@kernel("OptionalGetValue", stateful=True)
def optional_get_value(
    ctx: OpKernelContext,
    optional: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> list[Value]:
    """Return the value of an optional."""
    del ctx
    contents = optional_of(optional)
    values = contents.values
    if values is None:
        raise InvalidArgumentError("The given optional does not have a value.")
    if len(values) != len(output_types):
        raise InvalidArgumentError(
            f"The given optional has {len(values)} components, expected {len(output_types)}."
        )
    for index, (value, dtype, expected, shape) in enumerate(
        zip(values, contents.types, map(as_dtype, output_types), output_shapes, strict=True)
    ):
        if dtype is not expected:
            raise InvalidArgumentError(
                f"The given optional does not match the expected type for component {index}. "
                f"Expected: {expected.name}. Actual: {dtype.name}."
            )
        actual = shape_of_value(value, dtype)
        if not is_compatible(shape, actual):
            raise InvalidArgumentError(
                f"The given optional does not match the expected shape for component {index}. "
                f"Expected: {shape_text(shape)}. Actual: {shape_text(actual)}."
            )
    return list(values)
