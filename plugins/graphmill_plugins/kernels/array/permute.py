"""Reorder elements: reversal, rotation, permutations, binary search, one-hot."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import (
    check_size,
    checked_axis,
    is_numpy,
    object_array,
    scalar_int,
    shape_text,
    to_ints,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@kernel("ReverseV2", static=("axis",))
def reverse_v2(_xp: ArrayNamespace, x: Value, axis: Value) -> Value:
    """Reverse the given dimensions.

    Raises:
        InvalidArgumentError: `axis` is not a vector, or a dimension is out of range or repeated.
    """
    if not x.ndim or 0 in x.shape:
        return x
    if axis.ndim != 1:
        raise InvalidArgumentError(f"'dims' must be 1-dimension, not {axis.ndim}")
    axes = [checked_axis(dim, x.ndim) for dim in to_ints(axis)]
    if len(set(axes)) < len(axes):
        raise InvalidArgumentError(f"axis {list(to_ints(axis))} names a dimension twice")
    return _reversed(x, [dim in axes for dim in range(x.ndim)])


@kernel("Reverse", static=("dims",))
def reverse(_xp: ArrayNamespace, x: Value, dims: Value) -> Value:
    """Reverse the dimensions that are marked true."""
    if not x.ndim:
        return x
    marks = dims.tolist()
    if dims.ndim != 1 or len(marks) != x.ndim:
        raise InvalidArgumentError(
            f"'dims' must have one boolean for each of {x.ndim} dimensions, got shape "
            f"{shape_text(dims.shape)}"
        )
    return _reversed(x, marks)


def _reversed(x: Value, marks: list[bool]) -> Value:
    return x[(*(slice(None, None, -1 if mark else None) for mark in marks), ...)]


@kernel("ReverseSequence", make=True)
def reverse_sequence(
    xp: ArrayNamespace, seq_dim: int, batch_dim: int
) -> Callable[[Value, Value], Value]:
    """Reverse the first elements of each sequence in a batch, up to its length.

    Raises:
        InvalidArgumentError: dimensions are out of range or equal; on NumPy also if a length is
            negative or beyond the dimension.
    """

    def run(x: Value, lengths: Value) -> Value:
        for name, dim in (("seq_dim", seq_dim), ("batch_dim", batch_dim)):
            if dim < 0:
                raise InvalidArgumentError(f"Invalid {name} {dim}")
        along, across = _checked_dims(x, seq_dim, batch_dim)
        if lengths.shape != (x.shape[across],):
            raise InvalidArgumentError(
                f"Length of seq_lengths != input.dims({across}), ({shape_text(lengths.shape)} vs. "
                f"{x.shape[across]})"
            )
        if is_numpy(xp) and lengths.size:
            _check_lengths(lengths, x.shape[along])
        if not x.size:  # a dimension may be large nevertheless
            return x
        shape = [1] * x.ndim
        shape[across] = -1
        ends = lengths.reshape(shape)
        steps = np.arange(x.shape[along]).reshape([-1 if i == along else 1 for i in range(x.ndim)])
        indices = xp.where(steps < ends, ends - 1 - steps, steps)
        return xp.take_along_axis(x, indices, along)

    return run


def _checked_dims(x: Value, seq_dim: int, batch_dim: int) -> tuple[int, int]:
    along = checked_axis(seq_dim, x.ndim, "seq_dim")
    across = checked_axis(batch_dim, x.ndim, "batch_dim")
    if along == across:
        raise InvalidArgumentError(f"batch_dim == seq_dim == {seq_dim}")
    return along, across


def _check_lengths(lengths: Value, size: int) -> None:
    if lengths.min() < 0 or lengths.max() > size:
        raise InvalidArgumentError(f"seq_lengths {lengths.tolist()} must lie in [0, {size}]")


@kernel("Roll", static=("axis",))
def roll(xp: ArrayNamespace, x: Value, shift: Value, axis: Value) -> Value:
    """Rotate along dimensions; repeated dimensions add up."""
    if x.ndim < 1:
        raise InvalidArgumentError("input must be 1-D or higher")
    if shift.shape != axis.shape or shift.ndim > 1:
        raise InvalidArgumentError(
            "shift and axis must have the same size, got shapes "
            f"{shape_text(shift.shape)} and {shape_text(axis.shape)}"
        )
    axes = [checked_axis(dim, x.ndim) for dim in to_ints(axis)]
    amounts = shift.reshape(-1)
    for position, along in enumerate(axes):
        x = xp.roll(x, amounts[position], along)
    return x


@kernel("InvertPermutation", make=True)
def invert_permutation(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value], Value]:
    """Return y with y[x[i]] = i.

    Raises:
        InvalidArgumentError: on NumPy, if x is not a permutation of 0 … n-1.
    """

    def invert(x: Value) -> Value:
        if x.ndim != 1:
            raise InvalidArgumentError(
                f"invert_permutation expects a 1D vector, got shape {shape_text(x.shape)}"
            )
        if not is_numpy(xp):
            return xp.argsort(x).astype(T)
        count = x.shape[0]
        if count and (x.min() < 0 or x.max() >= count):
            value = x[(x < 0) | (x >= count)][0]
            raise InvalidArgumentError(f"{value} is not between 0 and {count}")
        result = np.full(count, -1, T)
        result[x] = np.arange(count, dtype=T)
        if count and result.min() < 0:
            raise InvalidArgumentError(f"a value is duplicated in the input {x.tolist()}")
        return result

    return invert


@kernel("OneHot", static=("depth",), make=True)
def one_hot(
    xp: ArrayNamespace, T: np.dtype[Any], axis: int
) -> Callable[[Value, Value, Value, Value], Value]:
    """Put `on_value` at each index along a new axis of size `depth`, `off_value` elsewhere."""
    mark = partial(_mark, xp)
    if axis < -1:
        raise InvalidArgumentError(f"axis must be >= -1, got {axis}")

    def spread(indices: Value, depth: Value, on_value: Value, off_value: Value) -> Value:
        count = scalar_int("depth", depth)
        if count < 0:
            raise InvalidArgumentError(f"depth must be non-negative, got: {count}")
        for name, value in (("on_value", on_value), ("off_value", off_value)):
            if value.ndim:
                raise InvalidArgumentError(
                    f"{name} must be a scalar, but got: {shape_text(value.shape)}"
                )
        check_size((*indices.shape, count), itemsize=T.itemsize)
        along = checked_axis(axis, indices.ndim + 1)
        write = _mark_numpy if is_numpy(xp) and indices.size * count > _MAX_COMPARED else mark
        return write(indices.astype(np.int64), count, along, (on_value, off_value), T)

    return spread


_MAX_COMPARED = 4096  # elements up to which comparing each is faster than writing the marks


def _mark(
    xp: ArrayNamespace,
    indices: Value,
    depth: int,
    axis: int,
    values: tuple[Value, Value],
    dtype: np.dtype[Any],
) -> Value:
    shape = indices.shape
    wide = indices.reshape((*shape[:axis], 1, *shape[axis:]))
    steps = np.arange(depth).reshape((depth,) + (1,) * (len(shape) - axis))
    result = xp.where(wide == steps, *values)
    return object_array(result) if dtype.kind == "O" else result


def _mark_numpy(
    indices: Value, depth: int, axis: int, values: tuple[Value, Value], dtype: np.dtype[Any]
) -> Value:
    """Write only the `on_value` elements; for a large depth, comparing all is far slower."""
    on_value, off_value = (value[()] for value in values)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    if dtype.kind in "biufc" and not off_value:
        result = np.zeros(shape, dtype)
    else:
        result = np.empty(shape, dtype)
        result.fill(off_value)
    inside = (indices >= 0) & (indices < depth)
    coords = np.nonzero(inside) if indices.ndim else ()
    if indices.ndim or inside:
        np.moveaxis(result, axis, -1)[(*coords, indices[inside] if coords else indices)] = on_value
    return result


@kernel("LowerBound", backend="numpy")
def lower_bound(sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]) -> Value:
    """Return for each value of a row the number of sorted elements below it."""
    return _bounds(sorted_inputs, values, "left", out_type)


@kernel("UpperBound", backend="numpy")
def upper_bound(sorted_inputs: Value, values: Value, *, out_type: np.dtype[Any]) -> Value:
    """Return for each value of a row the number of sorted elements not above it."""
    return _bounds(sorted_inputs, values, "right", out_type)


def _bounds(sorted_inputs: Value, values: Value, side: Any, out_type: np.dtype[Any]) -> Value:
    check_bounds(sorted_inputs, values)
    result = np.empty(values.shape, out_type)
    for row in range(values.shape[0]):
        result[row] = np.searchsorted(sorted_inputs[row], values[row], side)
    return result


def check_bounds(sorted_inputs: Value, values: Value) -> None:
    """Check the shapes of LowerBound's and UpperBound's inputs.

    Raises:
        InvalidArgumentError: they are not matrices with equally many rows.
    """
    if sorted_inputs.ndim != 2 or values.ndim != 2 or len(sorted_inputs) != len(values):
        raise InvalidArgumentError(
            "sorted inputs and values must be matrices with the same number of rows, got shapes "
            f"{shape_text(sorted_inputs.shape)} and {shape_text(values.shape)}"
        )


def check_not_empty(indices: Value) -> None:
    """Raise InvalidArgumentError if there are no indices."""
    if not indices.size:
        raise InvalidArgumentError(f"received empty tensor indices, of {shape_text(indices.shape)}")


@kernel("UnravelIndex", backend="numpy", static=("dims",))
def unravel_index(indices: Value, dims: Value) -> Value:
    """Convert flat indices into one coordinate for each of `dims`.

    Raises:
        InvalidArgumentError: an index is out of range.
    """
    if dims.ndim != 1 or indices.ndim > 1:
        raise InvalidArgumentError(
            "dims must be a vector and indices a scalar or vector, got shapes "
            f"{shape_text(dims.shape)} and {shape_text(indices.shape)}"
        )
    check_not_empty(indices)
    shape = to_ints(dims)
    if min(shape, default=1) <= 0:
        raise InvalidArgumentError(f"Input dims cannot contain a dim of zero or less, got {shape}")
    try:
        coordinates = np.unravel_index(indices, shape)
    except ValueError:
        raise InvalidArgumentError(
            f"index is out of bound as with dims {list(shape)}: {indices.tolist()}"
        ) from None
    return np.asarray(np.stack(coordinates)).astype(dims.dtype)
