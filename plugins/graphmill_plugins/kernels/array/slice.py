"""Slices and strided slices, their gradient and assignment.

Semantics: tensorflow/core/util/strided_slice_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import is_string, on_objects, shape_text
from graphmill_plugins.kernels.array.index_ops import slice_kernels
from graphmill_plugins.kernels.array.index_plan import check_slice_shape, index_maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.array.index_plan import Index, IndexMaker


@kernel("Slice", static=("begin", "size"), make=True)
def slice_(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value, Value], Value]:
    """Take `size` elements from `begin` along each dimension; a size of -1 takes the rest.

    Raises:
        InvalidArgumentError: a slice does not lie inside the input.
    """

    def cut(x: Value, begin: Value, size: Value) -> Value:
        shape = x.shape
        if not begin.shape == size.shape == (len(shape),):
            raise InvalidArgumentError(
                "Expected begin and size arguments to be 1-D tensors of size "
                f"{len(shape)}, but got shapes {shape_text(begin.shape)} and "
                f"{shape_text(size.shape)} instead."
            )
        starts, sizes = begin.tolist(), size.tolist()
        index = []
        for axis, (start, count, whole) in enumerate(zip(starts, sizes, shape, strict=True)):
            if not 0 <= start <= whole:
                raise InvalidArgumentError(
                    f"Expected begin[{axis}] in [0, {whole}], but got {start}"
                )
            stop = whole if count == -1 else start + count
            if not start <= stop <= whole:
                raise InvalidArgumentError(
                    f"Expected size[{axis}] in [0, {whole - start}], but got {count}"
                )
            index.append(slice(start, stop))
        return x[(*index, ...)]

    return on_objects(cut, T)


@kernel("StridedSlice", static=("begin", "end", "strides"), make=True)
def strided_slice(
    _xp: ArrayNamespace,
    T: np.dtype[Any],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Callable[[Value, Value, Value, Value], Value]:
    """Index as Python does: ranges with steps, points, new axes, an ellipsis."""
    index = _remembered(
        index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    )
    if is_string(T) and not ellipsis_mask:
        # The ellipsis makes a single string a 0-d array instead of bare bytes.
        return lambda x, begin, end, strides: x[(*index(x.shape, begin, end, strides), ...)]
    return on_objects(lambda x, begin, end, strides: x[index(x.shape, begin, end, strides)], T)


def _remembered(make: IndexMaker) -> IndexMaker:
    """Return `make` with a cache of its last index, because most slices are equal in each step.

    The bytes of the bounds are compared, not the arrays, which a caller may change between steps.
    """
    last: tuple[Any, Index] = (None, ())

    def index(shape: tuple[int, ...], begin: Value, end: Value, strides: Value) -> Index:
        nonlocal last
        if not begin.ndim == end.ndim == strides.ndim == 1:
            return make(shape, begin, end, strides)  # which reports it
        key = shape, begin.tobytes(), end.tobytes(), strides.tobytes()
        known, result = last  # one assignment, so that threads see a key with its index
        if key != known:
            result = make(shape, begin, end, strides)
            last = key, result
        return result

    return index


def assign_slice(target: Value, index: Index, value: Value, *, exact: bool) -> None:
    """Write `value` into `target[index]`; it may broadcast unless `exact`.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    part = target[(*index, ...)] if ... not in index else target[index]
    if not exact and not part.size:
        return
    if exact:
        check_slice_shape(value.shape, part.shape)
    part[...] = value


def _put(sizes: tuple[int, ...], dtype: np.dtype[Any], index: Index, dy: Value) -> Value:
    result = np.full(sizes, b"", dtype) if is_string(dtype) else np.zeros(sizes, dtype)
    assign_slice(result, index, dy, exact=True)
    return result


def _write(x: Value, index: Index, value: Value) -> Value:
    result = np.array(x)
    assign_slice(result, index, value, exact=False)
    return result


KERNELS = slice_kernels("numpy", put=_put, write=_write)
