"""Reduce rows with equal segment ids on NumPy.

`ufunc.reduceat` takes a microsecond for each run of rows, however short, and adds up wide rows at a
fifth of the speed of `ufunc.reduce`. Where no run is long it is several times quicker to take the
first rows of all runs at once, then the second ones, and so on; where rows are wide, to reduce each
run by itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import Value

_MOST_TURNS = 8
_WIDE = 96  # elements of a row
_FEW = 2048  # elements of all runs together


def run_starts(ids: Value) -> Value:
    """Return where in a vector of ids in order a new one begins."""
    first = np.empty(ids.shape, np.bool_)
    first[:1] = True
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    return first.nonzero()[0]


def run_lengths(starts: Value, count: int) -> Value:
    """Return how many of `count` rows are in each run."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    if starts.size:
        lengths[-1] = count - starts[-1]
    return lengths


def within_runs(lengths: Value) -> Value:
    """Return 0, 1, … for each run of given lengths, concatenated."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - lengths, lengths)


def are_short(starts: Value, count: int) -> bool:
    """Whether no run of `count` rows is so long that turns would be slow."""
    return bool(run_lengths(starts, count).max(initial=0) <= _MOST_TURNS)


def are_few(starts: Value, rows: Value) -> bool:
    """Whether runs are so few, and rows so narrow, that `ufunc.reduceat` is as quick as turns."""
    return bool(starts.size * math.prod(rows.shape[1:]) < _FEW)


def are_wide(rows: Value) -> bool:
    """Whether rows are so long that each run is best reduced by itself."""
    return bool(rows.ndim > 1 and math.prod(rows.shape[1:]) >= _WIDE)


def combine_runs(
    ufunc: np.ufunc,
    target: Value,
    ids: Value,
    starts: Value,
    rows: Value,
    order: Value | None = None,
) -> None:
    """Reduce each run of `rows[order]` into the row of `target` given by its id.

    The arguments are those of `combine_in_turns`; what was in these rows of `target` is lost.
    """
    ends = [*starts[1:].tolist(), ids.size]
    for place, start, end in zip(ids[starts].tolist(), starts.tolist(), ends, strict=True):
        run = rows[start:end] if order is None else rows.take(order[start:end], axis=0)
        ufunc.reduce(run, axis=0, dtype=target.dtype, out=target[place])


def combine_in_turns(
    ufunc: np.ufunc,
    target: Value,
    ids: Value,
    starts: Value,
    rows: Value,
    order: Value | None = None,
    *,
    turn: int = 0,
) -> None:
    """Combine `rows[order]` into the rows of `target` that `ids`, which are in order, name.

    Args:
        ufunc: how.
        target: written to; the caller owns it.
        ids: the place of each row, in order.
        starts: where in `ids` each run begins.
        rows: the rows, in any order.
        order: which row each id is of; None if they are in order.
        turn: which row of each run to begin with.
    """
    lengths = run_lengths(starts, ids.size)
    while starts.size:
        more = lengths > turn
        starts, lengths = starts[more], lengths[more]
        places, chosen = ids[starts], starts + turn
        chosen = chosen if order is None else order[chosen]
        target[places] = ufunc(target.take(places, axis=0), rows.take(chosen, axis=0))
        turn += 1


def without_nan(ufunc: np.ufunc, updates: Value) -> Value:
    """Return updates for scattering: of extrema with infinity for nan, which changes none.

    Semantics: tensorflow/core/kernels/scatter_functor.h, where a nan stays that was there before.
    """
    if ufunc not in (np.minimum, np.maximum) or updates.dtype.kind in "iu":
        return updates
    is_nan = np.isnan(updates)
    if not is_nan.any():
        return updates
    neutral = updates.dtype.type(np.inf if ufunc is np.minimum else -np.inf)
    return np.where(is_nan, neutral, updates)
