"""XlaVariadicSort: sort several tensors together by a comparator.

Semantics: the Sort operation of XLA (openxla.org/xla/operation_semantics). A merge sort that merges
all pairs of runs at once: a binary search finds the position of each element in the other run, so
the comparator is called about log² n times, with arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import check_cancelled
from graphmill_plugins.kernels._support import scalar_int, shape_text
from graphmill_plugins.kernels.xla._computation import function_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import FuncAttr, OpKernelContext, Value


@kernel("XlaVariadicSort", stateful=True, effects=())
def xla_variadic_sort(
    ctx: OpKernelContext, inputs: list[Value], dimension: Value, comparator: FuncAttr
) -> Any:
    """Sort along a dimension, stably.

    Raises:
        InvalidArgumentError: shapes differ, the dimension is out of range, or the comparator does
            not define an order of the elements.
    """
    shapes = {value.shape for value in inputs}
    axis = scalar_int("dimension", dimension)
    if len(shapes) != 1:
        raise InvalidArgumentError(
            f"inputs must have the same shape, got {', '.join(map(shape_text, sorted(shapes)))}"
        )
    (shape,) = shapes
    if not -len(shape) <= axis < len(shape):
        raise InvalidArgumentError(
            f"dimension {axis} is out of range for shape {shape_text(shape)}"
        )
    moved = [np.moveaxis(value, axis, -1) for value in inputs]
    count = shape[axis]
    rows = [value.reshape((-1, count)) for value in moved]
    compare = function_of(ctx, "comparator", comparator)

    def is_before(first: Value, second: Value) -> Value:
        pairs = [
            [np.take_along_axis(x, permutation, 1) for permutation in (first, second)] for x in rows
        ]
        return compare(*(one for pair in pairs for one in pair))[0]

    order = _order(len(rows[0]), count, is_before)
    sorted_rows = [np.take_along_axis(value, order, 1).reshape(moved[0].shape) for value in rows]
    return [np.moveaxis(value, -1, axis) for value in sorted_rows]


def _order(rows: int, count: int, is_before: Callable[[Value, Value], Value]) -> Value:
    """Return the permutation that sorts the elements of each row."""
    order = np.broadcast_to(np.arange(count), (rows, count))
    width = 1
    while width < count and rows:
        order = _merged(order, width, is_before)
        width *= 2
    return order


def _merged(order: Value, width: int, is_before: Callable[[Value, Value], Value]) -> Value:
    """Merge each pair of neighbouring sorted runs of length `width`."""
    count = order.shape[1]
    in_order = np.arange(count)
    start = in_order // (2 * width) * (2 * width)
    middle = np.minimum(start + width, count)
    is_left = in_order < middle
    low = np.broadcast_to(np.where(is_left, middle, start), order.shape).copy()
    high = np.broadcast_to(
        np.where(is_left, np.minimum(start + 2 * width, count), middle), order.shape
    ).copy()
    while (is_open := low < high).any():
        check_cancelled()
        half = np.minimum((low + high) // 2, count - 1)
        other = np.take_along_axis(order, half, 1)
        left = is_before(np.where(is_left, other, order), np.where(is_left, order, other))
        goes_up = left == is_left  # on ties, elements of the left run come first
        low = np.where(is_open & goes_up, half + 1, low)
        high = np.where(is_open & ~goes_up, half, high)
    positions = in_order + low - middle
    if (np.sort(positions, axis=1) != in_order).any():
        raise InvalidArgumentError(
            "the comparator does not define an order of the elements: it must be asymmetric and "
            "transitive"
        )
    result = np.empty_like(order)
    np.put_along_axis(result, positions, order, 1)
    return result
