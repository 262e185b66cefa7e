"""Concat, Split, Pack and Unpack kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import shape_of_value
from graphmill_plugins.kernels._support import (
    SMALL_REQUEST,
    ask_for_memory,
    check_axis_count,
    check_size,
    checked_axis,
    is_numpy,
    is_string,
    scalar_int,
    shape_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@kernel("ConcatV2", static=("axis",), make=True)
def concat_v2(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[list[Value], Value], Value]:
    """Concatenate tensors along an axis.

    Raises:
        InvalidArgumentError: the axis is out of range, or other dimensions differ.
    """
    concatenate = _concatenated if is_numpy(xp) else xp.concatenate

    def join(values: list[Value], axis: Value) -> Value:
        if axis.ndim > 1:
            raise InvalidArgumentError(
                f"axis tensor should be a scalar integer, but got shape {shape_text(axis.shape)}"
            )
        along = axis.item()
        try:
            return concatenate(values, along)
        except (ValueError, TypeError):
            shapes = [shape_of_value(value, as_dtype(T)) for value in values]
            checked_axis(along, len(shapes[0]), "concat dimension")
            text = " vs. ".join(map(shape_text, shapes))
            raise InvalidArgumentError(
                f"ConcatOp: all dimensions except {along} must match: {text}"
            ) from None

    return join


def _concatenated(values: list[Value], axis: int) -> Value:
    nbytes = sum([getattr(value, "nbytes", 0) for value in values])  # a handle has none
    if nbytes > SMALL_REQUEST:
        ask_for_memory(nbytes, f"the concatenation of {len(values)} tensors has {nbytes} bytes")
    return np.concatenate(values, axis)


@kernel("Concat", static=("concat_dim",), make=True)
def concat(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, list[Value]], Value]:
    """Concatenate tensors along the axis that the first input gives."""
    join = concat_v2(xp, T)
    return lambda concat_dim, values: join(values, concat_dim)


@kernel("ParallelConcat")
def parallel_concat(xp: ArrayNamespace, values: list[Value], *, shape: tuple[int, ...]) -> Value:
    """Concatenate tensors along their first dimension, which is 1 in each."""
    result = xp.concatenate(values, 0)
    if result.shape != shape:
        raise InvalidArgumentError(
            f"the attr shape is {shape_text(shape)}, but the concatenated values have shape "
            f"{shape_text(result.shape)}"
        )
    return result


@kernel("ConcatOffset", static=("concat_dim", "shape"))
def concat_offset(_xp: ArrayNamespace, concat_dim: Value, shapes: list[Value]) -> list[Value]:
    """Return the offset of each shape in the concatenation."""
    dimension = scalar_int("concat_dim", concat_dim)
    for index, shape in enumerate(shapes):
        check_axis_count(shape, f"input {index}")
        if shape.ndim != 1:
            raise InvalidArgumentError(
                f"input {index} should be a vector, but got shape {shape_text(shape.shape)}"
            )
    axis = checked_axis(dimension, shapes[0].size, "concat dimension")
    offsets, position = [], 0
    for index, shape in enumerate(shapes):
        others = np.arange(shape.size) != axis
        if shape.shape != shapes[0].shape or (shape[others] != shapes[0][others]).any():
            raise InvalidArgumentError(
                f"All dimensions except {axis} must match. Input {index} has shape "
                f"{shape.tolist()} and doesn't match input 0 with shape {shapes[0].tolist()}."
            )
        offset = np.zeros_like(shape)
        offset[axis] = position
        offsets.append(offset)
        position += int(shape[axis])
    return offsets


@kernel("Pack", make=True)
def pack(xp: ArrayNamespace, T: np.dtype[Any], axis: int) -> Callable[[list[Value]], Value]:
    """Stack tensors of one shape along a new axis."""
    if T.kind == "O":  # variants and strings are in host memory on every device
        return lambda values: _pack_objects(values, axis, T)
    if not is_numpy(xp):
        return lambda values: xp.stack(values, checked_axis(axis, values[0].ndim + 1))

    def stack(values: list[Value]) -> Value:
        shape = values[0].shape
        along = checked_axis(axis, len(shape) + 1)
        for value in values:
            if value.shape != shape:
                raise _unequal(values)
        if not shape:
            return np.array(values, T)
        check_size((len(values), *shape), itemsize=T.itemsize)
        slot = (*shape[:along], 1, *shape[along:])
        return np.concatenate([value.reshape(slot) for value in values], along)

    return stack


def _unequal(values: list[Value]) -> InvalidArgumentError:
    shapes = ", ".join(shape_text(value.shape) for value in values)
    return InvalidArgumentError(f"Shapes of all inputs must match, got {shapes}")


def _pack_objects(values: list[Value], axis: int, dtype: np.dtype[Any]) -> Value:
    """Stack strings, or handles: a scalar handle is the bare object."""
    shape = getattr(values[0], "shape", ()) if isinstance(values[0], np.ndarray) else ()
    along = checked_axis(axis, len(shape) + 1)
    result = np.empty((len(values), *shape), dtype)
    for index, value in enumerate(values):
        if isinstance(value, np.ndarray):
            if value.shape != shape:
                raise _unequal(values)
            result[index] = value[()]
        else:
            result[index] = value
    return np.moveaxis(result, 0, along)


@kernel("Unpack", make=True)
def unpack(
    _xp: ArrayNamespace, T: np.dtype[Any], num: int, axis: int
) -> Callable[[Value], list[Value]]:
    """Split a tensor into its slices along an axis, which have one dimension less."""
    tail = (...,) if is_string(T) else ()

    def part(value: Value) -> list[Value]:
        along = checked_axis(axis, value.ndim)
        if value.shape[along] != num:
            raise InvalidArgumentError(
                f"Input shape axis {along} must equal {num}, got shape {shape_text(value.shape)}"
            )
        before = (slice(None),) * along
        return [value[(*before, index, *tail)] for index in range(num)]

    return part


@kernel("Split", static=("split_dim",), make=True)
def split(_xp: ArrayNamespace, num_split: int) -> Callable[[Value, Value], list[Value]]:
    """Split a tensor into equal parts along an axis."""

    def cut(split_dim: Value, value: Value) -> list[Value]:
        along = checked_axis(scalar_int("split_dim", split_dim), value.ndim, "split dimension")
        whole = value.shape[along]
        if whole % num_split:
            raise InvalidArgumentError(
                "Number of ways to split should evenly divide the split dimension, but got "
                f"split_dim {along} (size = {whole}) and num_split {num_split}"
            )
        return _cut(value, along, [whole // num_split] * num_split)

    return cut


def _cut(value: Value, axis: int, sizes: list[int]) -> list[Value]:
    before = (slice(None),) * axis
    parts, start = [], 0
    for size in sizes:
        parts.append(value[(*before, slice(start, start + size))])
        start += size
    return parts


@kernel("SplitV", static=("size_splits", "split_dim"), make=True)
def split_v(_xp: ArrayNamespace, num_split: int) -> Callable[[Value, Value, Value], list[Value]]:
    """Split a tensor into parts of given sizes along an axis; one size may be -1."""

    def cut(value: Value, size_splits: Value, split_dim: Value) -> list[Value]:
        along = checked_axis(split_dim.item(), value.ndim, "split dimension")
        sizes = size_splits.tolist()
        if size_splits.ndim != 1 or len(sizes) != num_split:
            raise InvalidArgumentError(
                f"size_splits must be a vector of {num_split} sizes, got shape "
                f"{shape_text(size_splits.shape)}"
            )
        whole = value.shape[along]
        if num_split == 1 and sizes[0] != whole:
            raise InvalidArgumentError(
                "If there is only one output, it must have the same size as the input. Input size: "
                f"{whole} output size: {sizes[0]}"
            )
        return _cut(value, along, _complete(sizes, whole))

    return cut


def _complete(sizes: list[int], whole: int) -> list[int]:
    """Replace a size of -1 by the remaining size.

    Raises:
        InvalidArgumentError: the sizes do not add up to `whole`.
    """
    unknown = sizes.count(-1)
    total = sum(size for size in sizes if size != -1)
    fits = total <= whole if unknown else total == whole
    if unknown > 1 or not fits or min(sizes) < -1:
        raise InvalidArgumentError(
            "Determined shape must either match input shape along split_dim exactly if fully "
            f"specified, or be less than the size of the input along split_dim if not fully "
            f"specified. Got: {sizes} for a dimension of size {whole}"
        )
    return [whole - total if size == -1 else size for size in sizes]
