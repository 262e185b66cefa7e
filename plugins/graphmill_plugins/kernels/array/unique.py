"""Unique, ListDiff and Where kernels, whose output shapes depend on values.

They need concrete values, so they always run on NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_axis, is_narrow, shape_text, to_ints

if TYPE_CHECKING:
    from graphmill.spi import Value

_MAX_ARGWHERE_SIZE = 64  # elements up to which `np.argwhere` is faster
_MAX_LISTED = 64  # integers up to which a dict is faster than NumPy calls
_MIN_HASHED = 2048  # integers from which on a hash table is faster than sorting
_MAX_HASH_ROUNDS = 16  # attempts, after which the remaining values are sorted
_SPREADING = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: Fibonacci hashing
_WIDEST = 8  # largest range of values per element at which a table is faster than sorting


def _first_occurrences(x: Value) -> tuple[Value, Value]:
    """Return the index of the first occurrence of each distinct value of a vector, ascending.

    Also return for each element the index of its value in that list. Every NaN is distinct.
    """
    if x.dtype.kind == "O" or (x.size <= _MAX_LISTED and x.dtype.kind in "iu"):
        items = x.tolist()
        seen = {value: index for index, value in enumerate(dict.fromkeys(items))}
        inverse_indices = np.fromiter(map(seen.__getitem__, items), np.int64, x.size)
        first = np.zeros(len(seen), np.int64)
        first[inverse_indices[::-1]] = np.arange(x.size - 1, -1, -1)
        return first, inverse_indices
    if x.dtype.kind in "iu" and x.size:
        low, high = int(x.min()), int(x.max())
        if high - low < _WIDEST * x.size:
            return _first_occurrences_in_table(x, low, high)
        if x.size > _MIN_HASHED:
            return _with_inverse(_first_of_each_by_hash(x))
    if is_narrow(x.dtype):
        x = x.astype(np.float32)  # not every narrow float sorts NaN in NumPy
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    return _in_order_of_occurrence(first, inverse.reshape(-1))


def _first_occurrences_in_table(x: Value, low: int, high: int) -> tuple[Value, Value]:
    """Compute `_first_occurrences` for integers in [low, high], with a table of all of them."""
    # Differences overflow small signed types, and large unsigned values overflow an index.
    keys = (
        (x - x.dtype.type(low)).astype(np.intp) if x.dtype.kind == "u" else x.astype(np.intp) - low
    )
    table = np.empty(high - low + 1, np.intp)
    table[keys[::-1]] = np.arange(x.size - 1, -1, -1)  # the last write wins
    return _with_inverse(table[keys])


def _first_of_each_by_hash(x: Value) -> Value:
    """Return for each of many integers the index of its first occurrence.

    Each element writes its index into a hash table, in reverse order, so that the first element
    with a hash wins. If the winner has the same value, it is the first occurrence. Elements that
    collided with another value repeat this with another hash.
    """
    bits = x.size.bit_length() + 1
    table = np.empty(1 << bits, np.intp)
    first = np.empty(x.size, np.intp)
    remaining, values, factor = np.arange(x.size), x, _SPREADING
    for _ in range(_MAX_HASH_ROUNDS):
        keys = (values.astype(np.uint64) * np.uint64(factor) >> np.uint64(64 - bits)).view(np.int64)
        table[keys[::-1]] = remaining[::-1]
        candidates = table[keys]
        is_own = x[candidates] == values
        first[remaining[is_own]] = candidates[is_own]
        remaining, values = remaining[~is_own], values[~is_own]
        if not remaining.size:
            return first
        factor = factor * _SPREADING & (1 << 64) - 1
    _, first_positions, inverse = np.unique(values, return_index=True, return_inverse=True)
    first[remaining] = remaining[first_positions][inverse]
    return first


def _with_inverse(first_of_each: Value) -> tuple[Value, Value]:
    """Return the first occurrences of values and each element's value index in that list."""
    is_first = first_of_each == np.arange(first_of_each.size)
    return is_first.nonzero()[0], (is_first.cumsum() - 1)[first_of_each]


def _in_order_of_occurrence(first: Value, inverse: Value) -> tuple[Value, Value]:
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse]


def _distinct(x: Value) -> tuple[Value, Value]:
    """Return the distinct values of a vector in order of occurrence, and each element's index."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"unique expects a 1D vector, got shape {shape_text(x.shape)}")
    first, inverse = _first_occurrences(x)
    return x[first], inverse


def _unique_vector(x: Value, out_idx: np.dtype[Any]) -> tuple[Value, Value, Value]:
    """Return distinct values in order of occurrence, each element's index, and counts."""
    values, inverse = _distinct(x)
    counts = np.bincount(inverse, minlength=values.size)
    return values, inverse.astype(out_idx), counts.astype(out_idx)


def _unique_along(x: Value, axis: Value, out_idx: np.dtype[Any]) -> tuple[Value, Value, Value]:
    """Return distinct slices along an axis; without an axis `x` must be a vector."""
    axes = to_ints(axis)
    if axis.ndim != 1 or len(axes) > 1:
        raise InvalidArgumentError(
            f"axis expects a vector of at most one element, got {axis.tolist()}"
        )
    if not axes:
        return _unique_vector(x, out_idx)
    along = checked_axis(axes[0], x.ndim)
    if x.ndim == 1:
        return _unique_vector(x, out_idx)
    rows = np.moveaxis(x, along, 0)
    keys = rows.reshape(rows.shape[0], -1) if rows.size else np.zeros((rows.shape[0], 1), np.int8)
    # Replace the elements of each column by indices of its distinct values, so that rows of any
    # type compare as integers. One integer stands for the first columns; each column refines it.
    first, inverse = _first_occurrences(keys[:, 0])
    for column in keys.T[1:]:
        column_first, column_inverse = _first_occurrences(column)
        first, inverse = _first_occurrences(inverse * column_first.size + column_inverse)
    counts = np.bincount(inverse, minlength=first.size)
    return np.moveaxis(rows[first], 0, along), inverse.astype(out_idx), counts.astype(out_idx)


@kernel("Unique", host=True, dynamic_shape=True)
def unique(x: Value, *, out_idx: np.dtype[Any]) -> tuple[Value, Value]:
    """Return the distinct elements of a vector in order of occurrence, and each one's index."""
    values, inverse = _distinct(x)
    return values, inverse.astype(out_idx)


@kernel("UniqueWithCounts", host=True, dynamic_shape=True)
def unique_with_counts(x: Value, *, out_idx: np.dtype[Any]) -> tuple[Value, Value, Value]:
    """Like Unique, with the number of occurrences of each."""
    return _unique_vector(x, out_idx)


@kernel("UniqueV2", host=True, dynamic_shape=True)
def unique_v2(x: Value, axis: Value, *, out_idx: np.dtype[Any]) -> tuple[Value, Value]:
    """Return the distinct slices along an axis in order of occurrence, and each one's index."""
    return _unique_along(x, axis, out_idx)[:2]


@kernel("UniqueWithCountsV2", host=True, dynamic_shape=True)
def unique_with_counts_v2(
    x: Value, axis: Value, *, out_idx: np.dtype[Any]
) -> tuple[Value, Value, Value]:
    """Like UniqueV2, with the number of occurrences of each."""
    return _unique_along(x, axis, out_idx)


@kernel("ListDiff", host=True, dynamic_shape=True)
def list_diff(x: Value, y: Value, *, out_idx: np.dtype[Any]) -> tuple[Value, Value]:
    """Return the elements of a vector that are not in another one, and their indices."""
    for name, value in (("x", x), ("y", y)):
        if value.ndim != 1:
            raise InvalidArgumentError(
                f"{name} should be a 1D vector, got shape {shape_text(value.shape)}"
            )
    if x.dtype.kind == "O":
        without = frozenset(y.tolist())
        is_kept = np.array([value not in without for value in x.tolist()], np.bool_)
    else:
        is_kept = ~np.isin(x, y)
    positions = np.flatnonzero(is_kept)
    return x[positions], positions.astype(out_idx)


@kernel("Where", host=True, dynamic_shape=True)
def where(condition: Value) -> Value:
    """Return the indices of nonzero elements in row-major order, one per row, as int64."""
    if condition.dtype == np.float16:
        raise UnimplementedError("No WhereOp available for float16; try Where of `x != 0`")
    if condition.ndim == 0:
        raise InvalidArgumentError("WhereOp: a scalar has no indices, expected rank 1 or more")
    if condition.ndim == 1:
        return condition.nonzero()[0].reshape(-1, 1)  # a third of the time of `np.argwhere`
    if not _MAX_ARGWHERE_SIZE <= condition.size < 1 << 32:
        return np.argwhere(condition)
    return _indices(np.flatnonzero(condition).astype(np.uint32), condition.shape)


def _indices(flat: Any, shape: tuple[int, ...]) -> Any:
    """Return the index vectors of flat indices, one per row.

    Dividing 32-bit integers is several times faster than `np.argwhere` on several axes.
    """
    indices = np.empty((len(flat), len(shape)), np.int64)
    for axis in range(len(shape) - 1, 0, -1):
        outer = flat // np.uint32(shape[axis])
        indices[:, axis] = flat - outer * np.uint32(shape[axis])
        flat = outer
    indices[:, 0] = flat
    return indices
