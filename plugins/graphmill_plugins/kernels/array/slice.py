"""Slices and strided slices, their gradient and assignment.

Semantics: tensorflow/core/util/strided_slice_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_shape, is_string, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Index = tuple[Any, ...]
    IndexMaker = Callable[[tuple[int, ...], Value, Value, Value], Index]


@kernel("Slice", static=("begin", "size"), make=True)
def slice_(_xp: ArrayNamespace) -> Callable[[Value, Value, Value], Value]:
    """Take `size` elements from `begin` along each dimension; a size of -1 takes the rest.

    Raises:
        InvalidArgumentError: a slice does not lie inside the input.
    """

    def cut(x: Value, begin: Value, size: Value) -> Value:
        starts, sizes, shape = begin.tolist(), size.tolist(), x.shape
        if not begin.ndim == size.ndim == 1 or not len(starts) == len(sizes) == len(shape):
            raise InvalidArgumentError(
                "Expected begin and size arguments to be 1-D tensors of size "
                f"{len(shape)}, but got shapes {shape_text(begin.shape)} and "
                f"{shape_text(size.shape)} instead."
            )
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

    return cut


def index_maker(
    begin_mask: int, end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int
) -> IndexMaker:
    """Return the function from a shape, begin, end and strides to a NumPy index.

    Raises:
        InvalidArgumentError: (here) there are two ellipses; (there) the slice does not fit.
    """
    dots = ellipsis_mask & 0xFFFFFFFF  # as 32 bits, whatever the sign
    if dots & (dots - 1):
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")

    def make(shape: tuple[int, ...], begin: Value, end: Value, strides: Value) -> Index:
        if not begin.shape == end.shape == strides.shape or begin.ndim != 1:
            raise InvalidArgumentError(
                "Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                f"{shape_text(begin.shape)}, {shape_text(end.shape)}, and "
                f"{shape_text(strides.shape)} instead."
            )
        count, rank = begin.shape[0], len(shape)
        index: list[Any] = []
        axis = 0
        spec = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
        for position, (start, stop, step) in enumerate(spec):
            bit = 1 << position
            if ellipsis_mask & bit:
                index.append(...)
                # New axes behind the ellipsis take no dimension of the input.
                new_after = ((new_axis_mask >> (position + 1)) & ((1 << count) - 1)).bit_count()
                axis = max(axis, rank - (count - position - 1 - new_after))
            elif new_axis_mask & bit:
                index.append(None)
            else:
                if axis >= rank:
                    raise InvalidArgumentError(
                        f"Index out of range using input dim {axis}; input has only {rank} dims"
                    )
                size = shape[axis]
                if shrink_axis_mask & bit:
                    index.append(_checked_point(start, step, size, position))
                elif step == 0:
                    raise InvalidArgumentError(f"strides[{position}] must be non-zero")
                else:
                    index.append(
                        slice(
                            None if begin_mask & bit else start,
                            None if end_mask & bit else stop,
                            step,
                        )
                    )
                axis += 1
        return tuple(index)

    return make


def _checked_point(start: int, step: int, size: int, position: int) -> int:
    if step <= 0:
        raise InvalidArgumentError(
            f"only stride 1 allowed on non-range indexing, strides[{position}] is {step}"
        )
    if not -size <= start < size:
        raise InvalidArgumentError(f"slice index {start} of dimension {position} out of bounds.")
    return start


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
    index = index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    if is_string(T) and not ellipsis_mask:
        # With an ellipsis a single string comes as a 0-d array, not as bare bytes.
        return lambda x, begin, end, strides: x[(*index(x.shape, begin, end, strides), ...)]
    return lambda x, begin, end, strides: x[index(x.shape, begin, end, strides)]


@kernel("StridedSliceGrad", backend="numpy", static=("shape", "begin", "end", "strides"), make=True)
def strided_slice_grad(
    T: np.dtype[Any],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Callable[[Value, Value, Value, Value, Value], Value]:
    """Put `dy` where the slice was taken, in zeros of `shape`."""
    index = index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)

    def spread(shape: Value, begin: Value, end: Value, strides: Value, dy: Value) -> Value:
        sizes = checked_shape(shape)
        result = np.full(sizes, b"", T) if is_string(T) else np.zeros(sizes, T)
        assign_slice(result, index(sizes, begin, end, strides), dy, exact=True)
        return result

    return spread


def assign_slice(target: Value, index: Index, value: Value, *, exact: bool) -> None:
    """Write `value` into `target[index]`; it may broadcast unless `exact`.

    Raises:
        InvalidArgumentError: the shapes do not fit.
    """
    place = target[(*index, ...)] if ... not in index else target[index]
    if not exact and not place.size:
        return
    if exact and place.shape != value.shape:
        raise InvalidArgumentError(
            f"shape of dy was {shape_text(value.shape)} instead of {shape_text(place.shape)}"
        )
    place[...] = value


@kernel("TensorStridedSliceUpdate", backend="numpy", static=("begin", "end", "strides"), make=True)
def tensor_strided_slice_update(
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Callable[[Value, Value, Value, Value, Value], Value]:
    """Return a copy of the input with `value` written (and broadcast) into a slice."""
    index = index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)

    def update(x: Value, begin: Value, end: Value, strides: Value, value: Value) -> Value:
        result = np.array(x)
        assign_slice(result, index(x.shape, begin, end, strides), value, exact=False)
        return result

    return update
