"""Cumulative sums and products along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_axis, scalar_int

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Scan = Callable[[Value, Value], Value]


def scan(
    xp: ArrayNamespace,
    accumulate: Callable[[Value, int], Value],
    exclusive: bool,
    reverse: bool,
    start: Any,
) -> Scan:
    """Return the kernel of a cumulative op, given its inclusive forward scan.

    An exclusive scan begins with `start` and leaves the last element out.
    """

    def compute(x: Value, axis: Value) -> Value:
        along = checked_axis(scalar_int("axis", axis), x.ndim)
        if reverse:
            x = xp.flip(x, along)
        result = accumulate(x, along)
        if exclusive and x.shape[along]:
            result = _delay(xp, result, along, start)
        return xp.flip(result, along) if reverse else result

    return compute


def _delay(xp: ArrayNamespace, x: Value, axis: int, start: Any) -> Value:
    """Shift by one along an axis and put `start` in front."""
    before = (slice(None),) * axis
    first = xp.full(x[(*before, slice(0, 1))].shape, start, x.dtype)
    return xp.concatenate([first, x[(*before, slice(0, -1))]], axis)


@kernel("Cumsum", types={"T": dtypes.NUMERIC}, static=("axis",), make=True)
def cumsum(xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool) -> Scan:
    """Add along an axis, in the type of the input."""
    return scan(xp, lambda x, axis: xp.cumsum(x, axis, dtype=T), exclusive, reverse, T.type(0))


@kernel("Cumprod", types={"T": dtypes.NUMERIC}, static=("axis",), make=True)
def cumprod(xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool) -> Scan:
    """Multiply along an axis, in the type of the input."""
    return scan(xp, lambda x, axis: xp.cumprod(x, axis, dtype=T), exclusive, reverse, T.type(1))


@kernel("CumulativeLogsumexp", backend="numpy", make=True)
def cumulative_logsumexp(
    xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool
) -> Scan:
    """Compute log(cumsum(exp(x))) stably; an exclusive scan begins with minus infinity."""
    zero = T.type(0)

    def accumulate(x: Value, axis: int) -> Value:
        if (x < np.inf).all():
            return np.logaddexp.accumulate(x, axis, T) + zero  # a zero of the result is positive
        return _sums_of_powers(x, axis)

    return scan(xp, accumulate, exclusive, reverse, T.type(-np.inf))


def _sums_of_powers(x: Value, axis: int) -> Value:
    """Compute log(cumsum(exp(x))) with NaN and infinity where TensorFlow's comparisons put them.

    NaN counts as the sum before it: it is compared, and no comparison with NaN holds.
    """
    result = np.empty_like(x)
    total = np.full_like(np.take(x, 0, axis) if x.shape[axis] else x, -np.inf)
    for index in range(x.shape[axis]):
        element = np.take(x, index, axis)
        low, high = (
            np.where(element < total, element, total),
            np.where(total < element, element, total),
        )
        total = np.where(high == -np.inf, high, np.log1p(np.exp(low - high)) + high)
        result[(slice(None),) * axis + (index,)] = total
    return result
