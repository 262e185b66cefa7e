"""Scatter into tensors by index vectors on NumPy.

Semantics: tensorflow/core/kernels/scatter_nd_op.cc. Indices outside of the tensor raise unless the
policy is "IGNORE".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels._support import is_string
from graphmill_plugins.kernels.array.gather import bad_vector, outside
from graphmill_plugins.kernels.array.index_ops import scatter_kernels
from graphmill_plugins.kernels.segment_reduce import (
    are_short,
    combine_in_rounds,
    run_starts,
    without_nan,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value


_MAX_UNSORTED_ROWS = 64  # rows up to which sorting costs more than the slow path of `ufunc.at`


def _flat_rows(
    shape: tuple[int, ...], indices: Value, updates: Value, ignore: bool
) -> tuple[Value, Value]:
    """Return the index of the row that each index vector selects, and the updates as rows."""
    depth = indices.shape[-1]
    vectors = indices.reshape((math.prod(indices.shape[:-1]), depth))
    rows = updates.reshape((vectors.shape[0], math.prod(shape[depth:])))
    bad = outside(vectors, shape[:depth])
    if bad.any():
        if not ignore:
            raise bad_vector(indices, bad.reshape(indices.shape[:-1]), shape)
        vectors, rows = vectors[~bad], rows[~bad]
    weights = [math.prod(shape[axis + 1 : depth]) for axis in range(depth)]
    return vectors.astype(np.int64) @ np.array(weights, np.int64), rows


def scatter(
    ufunc: np.ufunc | None, target: Value, indices: Value, updates: Value, ignore: bool
) -> Value:
    """Combine updates into a contiguous array that the caller owns.

    A `ufunc` of None assigns; of several updates of one element the last one wins.
    """
    target_rows, rows = _flat_rows(target.shape, indices, updates, ignore)
    flat = target.reshape((math.prod(target.shape[: indices.shape[-1]]), rows.shape[1]))
    if ufunc is None:
        flat[target_rows] = rows
    elif rows.size:
        _combine_into(ufunc, flat, target_rows, without_nan(ufunc, rows))
    return target


def _combine_into(ufunc: np.ufunc, target: Value, target_rows: Value, rows: Value) -> None:
    """Combine rows into the rows of `target`; several rows may have the same target."""
    if rows.shape[1] == 1:
        ufunc.at(target[:, 0], target_rows, rows[:, 0])  # has a fast path for one dimension only
    elif rows.shape[0] <= _MAX_UNSORTED_ROWS or target.dtype.kind in "Ob":
        ufunc.at(target, target_rows, rows)
    else:
        among = np.add if ufunc is np.subtract else ufunc
        order = np.argsort(target_rows, kind="stable")
        ids = target_rows[order]
        starts = run_starts(ids)
        if are_short(starts, ids.size):
            combine_in_rounds(ufunc, target, ids, starts, rows, order)
            return
        sums = among.reduceat(rows[order], starts, axis=0, dtype=target.dtype)
        target[ids[starts]] = ufunc(target[ids[starts]], sums)


_UFUNCS: Final[dict[str, np.ufunc | None]] = {
    "set": None,
    "add": np.add,
    "subtract": np.subtract,
    "min": np.minimum,
    "max": np.maximum,
}


def _scatter(how: str, ignore: bool) -> Callable[[Value, Value, Value], Value]:
    ufunc = _UFUNCS[how]
    return lambda target, indices, updates: scatter(ufunc, target, indices, updates, ignore)


def _own(tensor: Value) -> Value:
    return np.array(tensor, order="C")


def _zeros(sizes: tuple[int, ...], dtype: np.dtype[Any]) -> Value:
    return np.full(sizes, b"", dtype) if is_string(dtype) else np.zeros(sizes, dtype)


def _inplace(how: str) -> Callable[[Value, Value, Value], Value]:
    ufunc = _UFUNCS[how]

    def update(x: Value, i: Value, v: Value) -> Value:
        result = np.array(x)
        rows = i % x.shape[0] if x.shape[0] else i
        if ufunc is None:
            result[rows] = v
        else:
            ufunc.at(result, rows, v)
        return result

    return update


KERNELS = scatter_kernels("numpy", scatter=_scatter, own=_own, zeros=_zeros, inplace=_inplace)
