"""Unique, ListDiff and Where kernels, whose output shapes depend on values.

They need concrete values, and so always run on NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_axis, is_narrow, shape_text, to_ints

if TYPE_CHECKING:
    from graphmill.spi import Value

_FEW = 64  # elements for which an index is found sooner axis by axis
_MANY = 2048  # integers for which a table of hashes is quicker than to sort
_MOST_HASHES = 16
_SPREADING = 0x9E3779B97F4A7C15
_WIDEST = 8  # for how many integers to an element a table is quicker than to sort


def _first_places(x: Value) -> tuple[Value, Value]:
    """Return the places where each distinct value of a vector occurs first, in their order.

    Also returns for each element the number of its value in that order. Every nan is distinct.
    """
    if x.dtype.kind == "O":
        items = x.tolist()
        seen = {value: number for number, value in enumerate(dict.fromkeys(items))}
        numbers = np.fromiter(map(seen.__getitem__, items), np.int64, x.size)
        first = np.zeros(len(seen), np.int64)
        first[numbers[::-1]] = np.arange(x.size - 1, -1, -1)
        return first, numbers
    if x.dtype.kind in "iu" and x.size:
        low, high = int(x.min()), int(x.max())
        if high - low < _WIDEST * x.size:
            return _first_places_in_table(x, low, high)
        if x.size > _MANY:
            return _numbered(_first_of_each_by_hash(x))
    if is_narrow(x.dtype):
        x = x.astype(np.float32)  # which NumPy can sort if there is nan among it
    _, first, inverse = np.unique(x, return_index=True, return_inverse=True, equal_nan=False)
    return _in_order_of_occurrence(first, inverse.reshape(-1))


def _first_places_in_table(x: Value, low: int, high: int) -> tuple[Value, Value]:
    """Do it for integers from low to high, with a place for each of them."""
    # Small signed types cannot hold the distance, large unsigned ones do not fit in an index.
    keys = (
        (x - x.dtype.type(low)).astype(np.intp) if x.dtype.kind == "u" else x.astype(np.intp) - low
    )
    table = np.empty(high - low + 1, np.intp)
    table[keys[::-1]] = np.arange(x.size - 1, -1, -1)  # what is written last stays
    return _numbered(table[keys])


def _first_of_each_by_hash(x: Value) -> Value:
    """Return for each of many integers, however far apart, the place where it occurs first.

    All write their places into a table, where their hashes say, the first last. Who finds his own
    value at the place that is left has found the first; the others take another hash.
    """
    bits = x.size.bit_length() + 1
    table = np.empty(1 << bits, np.intp)
    first = np.empty(x.size, np.intp)
    left, values, factor = np.arange(x.size), x, _SPREADING
    for _ in range(_MOST_HASHES):
        keys = (values.astype(np.uint64) * np.uint64(factor) >> np.uint64(64 - bits)).view(np.int64)
        table[keys[::-1]] = left[::-1]
        found = table[keys]
        is_own = x[found] == values
        first[left[is_own]] = found[is_own]
        left, values = left[~is_own], values[~is_own]
        if not left.size:
            return first
        factor = factor * _SPREADING & (1 << 64) - 1
    _, places, inverse = np.unique(values, return_index=True, return_inverse=True)
    first[left] = left[places][inverse]
    return first


def _numbered(first_of_each: Value) -> tuple[Value, Value]:
    """Return first places, and numbers, of the places where each element's value occurs first."""
    is_first = first_of_each == np.arange(first_of_each.size)
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first_of_each]


def _in_order_of_occurrence(first: Value, inverse: Value) -> tuple[Value, Value]:
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    return first[order], rank[inverse]


def _unique_vector(x: Value, out_idx: np.dtype[Any]) -> tuple[Value, Value, Value]:
    """Return distinct values in order of occurrence, the number of each element, and counts."""
    if x.ndim != 1:
        raise InvalidArgumentError(f"unique expects a 1D vector, got shape {shape_text(x.shape)}")
    first, numbers = _first_places(x)
    counts = np.bincount(numbers, minlength=first.size)
    return x[first], numbers.astype(out_idx), counts.astype(out_idx)


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
    # Each column is numbered by its own distinct values, so rows of any type compare as integers.
    # What is known of the first columns is one number, which the next column splits further.
    first, numbers = _first_places(keys[:, 0])
    for column in keys.T[1:]:
        others, theirs = _first_places(column)
        first, numbers = _first_places(numbers * others.size + theirs)
    counts = np.bincount(numbers, minlength=first.size)
    return np.moveaxis(rows[first], 0, along), numbers.astype(out_idx), counts.astype(out_idx)


@kernel("Unique", host=True, dynamic_shape=True)
def unique(x: Value, *, out_idx: np.dtype[Any]) -> tuple[Value, Value]:
    """Return the distinct elements of a vector in order of occurrence, and each one's index."""
    return _unique_vector(x, out_idx)[:2]


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
        kept = np.array([value not in without for value in x.tolist()], np.bool_)
    else:
        kept = ~np.isin(x, y)
    places = np.flatnonzero(kept)
    return x[places], places.astype(out_idx)


@kernel("Where", host=True, dynamic_shape=True)
def where(condition: Value) -> Value:
    """Return the indices of nonzero elements in row-major order, one per row, as int64."""
    if condition.ndim == 0:
        raise InvalidArgumentError("WhereOp: a scalar has no indices, expected rank 1 or more")
    if condition.dtype == np.float16:
        raise UnimplementedError("No WhereOp available for float16; try Where of `x != 0`")
    if condition.ndim == 1 or not _FEW <= condition.size < 1 << 32:
        return np.argwhere(condition)
    return _indices(np.flatnonzero(condition).astype(np.uint32), condition.shape)


def _indices(places: Any, shape: tuple[int, ...]) -> Any:
    """Return the index of each place, counted in row-major order, one to a row.

    NumPy divides 32-bit integers several times as fast as it walks along several axes.
    """
    found = np.empty((len(places), len(shape)), np.int64)
    for axis in range(len(shape) - 1, 0, -1):
        outer = places // np.uint32(shape[axis])
        found[:, axis] = places - outer * np.uint32(shape[axis])
        places = outer
    found[:, 0] = places
    return found
