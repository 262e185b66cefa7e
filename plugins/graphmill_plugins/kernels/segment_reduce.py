"""Reduce rows with equal segment ids on NumPy.

A run is a range of consecutive rows with one id. `ufunc.reduceat` takes a microsecond for each run,
however short, and reduces wide rows at a fifth of the speed of `ufunc.reduce`. So there are two
faster ways:

- If all runs are short, combine the first rows of all runs at once, then the second rows of those
  that have one, and so on: `combine_in_rounds`.
- If rows are wide, reduce each run by itself: `combine_runs`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_SHORT_RUN = 16  # rows
_MIN_WIDE_ROW = 96  # elements of a row
_MAX_RUN_ELEMENTS = 4096  # elements of the results of all runs


def run_starts(ids: Value) -> Value:
    """Return the indices at which runs begin in a sorted vector of ids."""
    first = np.empty(ids.shape, np.bool_)
    first[:1] = True
    np.not_equal(ids[1:], ids[:-1], out=first[1:])
    return first.nonzero()[0]


def run_lengths(starts: Value, count: int) -> Value:
    """Return the number of rows in each run; `count` is the total number of rows."""
    lengths = np.empty_like(starts)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
    if starts.size:
        lengths[-1] = count - starts[-1]
    return lengths


def within_runs(lengths: Value) -> Value:
    """Return the position of each row within its run, for runs of given lengths."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - lengths, lengths)


def are_short(starts: Value, count: int) -> bool:
    """Return whether all runs of `count` rows are short enough for `combine_in_rounds`."""
    return bool(run_lengths(starts, count).max(initial=0) <= _SHORT_RUN)


def are_few(starts: Value, rows: Value) -> bool:
    """Return whether `ufunc.reduceat` is as fast as `combine_in_rounds`: few runs, narrow rows."""
    return bool(starts.size * math.prod(rows.shape[1:]) < _MAX_RUN_ELEMENTS)


def are_wide(rows: Value) -> bool:
    """Return whether rows are so wide that `combine_runs` is fastest."""
    return bool(rows.ndim > 1 and math.prod(rows.shape[1:]) >= _MIN_WIDE_ROW)


def combine_runs(
    ufunc: np.ufunc,
    target: Value,
    ids: Value,
    starts: Value,
    rows: Value,
    order: Value | None = None,
) -> None:
    """Reduce each run of `rows[order]` into the row of `target` given by its id.

    The arguments are those of `combine_in_rounds`. These rows of `target` are overwritten.
    """
    ends = [*starts[1:].tolist(), ids.size]
    for row, start, end in zip(ids[starts].tolist(), starts.tolist(), ends, strict=True):
        run = rows[start:end] if order is None else rows.take(order[start:end], axis=0)
        ufunc.reduce(run, axis=0, dtype=target.dtype, out=target[row])


def combine_in_rounds(
    ufunc: np.ufunc,
    target: Value,
    ids: Value,
    starts: Value,
    rows: Value,
    order: Value | None = None,
    *,
    position: int = 0,
) -> None:
    """Combine `rows[order]` into the rows of `target` that sorted `ids` select.

    Args:
        ufunc: combines a row of `target` with one of `rows`.
        target: the array to write to; the caller owns it.
        ids: the target row of each row, ascending.
        starts: the indices in `ids` at which runs begin.
        rows: the rows, in any order.
        order: the index in `rows` for each id; None if they have the order of `ids`.
        position: the position within each run to start from.
    """
    lengths = run_lengths(starts, ids.size)
    if lengths.max(initial=0) <= position:
        return
    # The longest runs come first, so that those that have more rows are always the first ones.
    longest_first = np.argsort(-lengths, kind="stable")
    starts = starts[longest_first]
    counts = np.cumsum(np.bincount(lengths)[::-1])[::-1]  # runs of at least so many rows
    used = starts[: counts[position + 1]]
    result = target.take(ids[used], axis=0)
    for place in range(position, len(counts) - 1):
        chosen = starts[: counts[place + 1]] + place
        part = result[: len(chosen)]
        more = rows.take(chosen if order is None else order[chosen], axis=0)
        ufunc(part, more, out=part, casting="unsafe")  # integers may be divided
    target[ids[used]] = result


def without_nan(ufunc: np.ufunc, updates: Value, xp: ArrayNamespace = np) -> Value:
    """Replace NaN by a neutral infinity in the updates of a scattered minimum or maximum.

    Semantics: tensorflow/core/kernels/scatter_functor.h. A NaN that is in the target stays there.
    """
    if ufunc not in (np.minimum, np.maximum) or updates.dtype.kind in "iu":
        return updates
    is_nan = xp.isnan(updates)
    if xp is np and not is_nan.any():
        return updates
    neutral = updates.dtype.type(np.inf if ufunc is np.minimum else -np.inf)
    return xp.where(is_nan, neutral, updates)
