"""Helpers for sparse tensors: checks of the three parts, order, flat indices.

A sparse tensor is passed as three tensors: `indices` (count, rank), `values` (count), `shape`
(rank).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_axis_count, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value

_MAX_INT64 = 2**63 - 1
_CACHED_SHAPES: Final = 256  # whose checks are kept; batches of examples have few shapes
_MAX_SMALL_SIZE: Final = 600  # elements; NumPy broadcasts a short row as fast as a scalar


def check_parts(indices: Value, values: Value, shape: Value, name: str = "") -> tuple[int, ...]:
    """Check that three tensors are the parts of one sparse tensor, and return its sizes.

    Semantics: tensorflow/core/util/sparse/sparse_tensor.cc, kernels/sparse_utils.cc.

    Raises:
        InvalidArgumentError: ranks or counts do not fit, a size is negative, or the number of
            elements does not fit in 64 bits.
    """
    of = f" of {name}" if name else ""
    if values.ndim == shape.ndim == 1 and indices.shape == values.shape + shape.shape:
        return checked_sizes(shape, f"shape{of}")
    if indices.ndim != 2:
        raise InvalidArgumentError(
            f"Sparse indices{of} must be rank 2, got shape {shape_text(indices.shape)}"
        )
    if values.ndim != 1:
        raise InvalidArgumentError(
            f"Sparse values{of} must be rank 1, got shape {shape_text(values.shape)}"
        )
    if shape.ndim != 1:
        raise InvalidArgumentError(
            f"Sparse shape{of} must be rank 1, got shape {shape_text(shape.shape)}"
        )
    if len(indices) != len(values):
        raise InvalidArgumentError(
            f"Number of rows in indices{of} is {len(indices)}, which does not match the "
            f"{len(values)} elements of values"
        )
    raise InvalidArgumentError(
        f"Number of columns in indices{of} is {indices.shape[1]}, which does not match the "
        f"{len(shape)} elements of shape"
    )


def checked_sizes(shape: Value, what: str = "shape") -> tuple[int, ...]:
    """Return the sizes of a dense shape.

    Raises:
        InvalidArgumentError: there are too many, one is negative, or their product does not fit in
            64 bits.
    """
    check_axis_count(shape, what)
    return _checked(tuple(shape.tolist()), what)


@lru_cache(maxsize=_CACHED_SHAPES)
def _checked(sizes: tuple[int, ...], what: str) -> tuple[int, ...]:
    if min(sizes, default=0) < 0:
        raise InvalidArgumentError(f"{what} {shape_text(sizes)} has a negative size {min(sizes)}")
    if math.prod(sizes) > _MAX_INT64:
        raise InvalidArgumentError(f"{what} {list(sizes)} has more elements than 64 bits can count")
    return sizes


def check_bounds(indices: Value, sizes: tuple[int, ...], what: str = "indices") -> None:
    """Check that every row of indices is within the shape.

    Raises:
        InvalidArgumentError: a row is out of range; the message names the first one.
    """
    if not lie_inside(indices, sizes):
        row = int(np.argmax(((indices < 0) | (indices >= np.array(sizes, np.int64))).any(axis=1)))
        raise InvalidArgumentError(
            f"{what}[{row}] = {row_text(indices[row])} is out of bounds: need 0 <= index < "
            f"{shape_text(sizes)}"
        )


def lie_inside(indices: Value, sizes: tuple[int, ...]) -> bool:
    """Return whether every row of indices is within the shape."""
    if not indices.size:
        return True
    if indices.size <= _MAX_SMALL_SIZE:  # negative indices are large when they are read as unsigned
        limits = _limits(sizes, indices.dtype.itemsize)
        is_inside = indices.view(limits.dtype) < limits
        return bool(np.count_nonzero(is_inside) == indices.size)
    # Column by column: reducing along an axis of two or three elements is slow.
    return all(
        column.min() >= 0 and column.max() < size
        for column, size in zip(indices.T, sizes, strict=True)
    )


@lru_cache(maxsize=_CACHED_SHAPES)
def _limits(sizes: tuple[int, ...], itemsize: int) -> Any:
    """Return the sizes as unsigned integers of the indices' width."""
    largest = 1 << (8 * itemsize - 1)
    return np.array([min(size, largest) for size in sizes], f"u{itemsize}")


def row_text(row: Value) -> str:
    """Return a row of indices as TensorFlow prints it."""
    return "[" + ",".join(map(str, row.tolist())) + "]"


def flat_positions(
    indices: Value, sizes: tuple[int, ...], axes: Sequence[int] | None = None
) -> Any:
    """Return the flat position of each index row in the dense tensor.

    Args:
        indices: the rows.
        sizes: those of the dense tensor.
        axes: the column of each axis of the dense tensor; all columns in order by default.
    """
    columns = range(len(sizes)) if axes is None else axes
    if not columns:
        return np.zeros(len(indices), np.int64)
    *outer, last = columns
    if not outer:
        return indices[:, last].astype(np.int64, copy=False)
    flat = indices[:, last]
    stride = 1
    for axis in range(len(outer) - 1, -1, -1):
        stride *= sizes[axis + 1]
        flat = flat + indices[:, outer[axis]] * np.int64(stride)
    return flat.astype(np.int64, copy=False)


def from_positions(flat: Value, sizes: tuple[int, ...]) -> Any:
    """Return the indices (count, rank) of positions in the dense tensor."""
    out = np.empty((len(flat), len(sizes)), np.int64)
    rest = flat
    for axis in range(len(sizes) - 1, 0, -1):
        rest, out[:, axis] = np.divmod(rest, max(sizes[axis], 1))
    if sizes:
        out[:, 0] = rest
    return out


def order_of(indices: Value) -> Any:
    """Return the stable order that sorts rows of indices, first column first."""
    count, rank = indices.shape
    if rank == 0 or count < 2 or are_in_order(indices):
        return np.arange(count)
    sizes = tuple(int(column.max()) + 1 for column in indices.T)
    bits = (count - 1).bit_length()
    if indices.min() < 0 or math.prod(sizes) >= 1 << (63 - bits):
        return np.lexsort(indices.T[::-1])
    # With the row index in the low bits all keys are distinct, so an unstable sort is sufficient.
    # NumPy's takes a tenth of the time of a stable argsort.
    keys = flat_positions(indices, sizes) << bits | np.arange(count)
    keys.sort()
    return keys & ((1 << bits) - 1)


def are_in_order(indices: Value) -> bool:
    """Return whether the rows of indices are in ascending order, ties included."""
    is_tied: Any = True  # in the columns so far
    for column in indices.T:
        if (is_tied & (column[1:] < column[:-1])).any():
            return False
        is_tied = is_tied & (column[1:] == column[:-1])
    return True


def check_ascending(indices: Value) -> None:
    """Check that the rows of indices are in ascending order, and that none is repeated.

    Raises:
        InvalidArgumentError: they are not.
    """
    if not are_in_order(indices):
        raise InvalidArgumentError("indices are out of order; sort them by SparseReorder")
    if (indices[1:] == indices[:-1]).all(axis=1).any():
        raise InvalidArgumentError("indices are repeated")


def are_among(numbers: Value, others: Value) -> Value:
    """Return a mask of the `numbers` that occur in the ascending array `others`."""
    if not len(others):
        return np.zeros(len(numbers), np.bool_)
    nearest = np.minimum(np.searchsorted(others, numbers), len(others) - 1)
    return others[nearest] == numbers
