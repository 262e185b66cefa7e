"""Pooling gradient kernels on NumPy; ops, checks and shapes are in `ops`.

In two dimensions the gradient of a maximum goes to the first of equal elements of a window, in
row-major order, or to NaN if that is the first element; in three dimensions it goes to all equal
elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.pool.ops import pool_gradient_kernels
from graphmill_plugins.kernels.nn.pool.plan import window_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.pool.plan import PoolPlan
    from graphmill_plugins.kernels.nn.window import Axis

    Array = NDArray[Any]


def _overlaps(axes: Sequence[Axis], taps: Sequence[int]) -> tuple[Any, Any]:
    """Return index tuples (windows, inputs) of one tap of channels-last tensors."""
    pairs = [axis.overlap(tap) for axis, tap in zip(axes, taps, strict=True)]
    whole = (slice(None),)
    return whole + tuple(pair[0] for pair in pairs), whole + tuple(pair[1] for pair in pairs)


def _taps(axes: Sequence[Axis]) -> Iterable[tuple[int, ...]]:
    """Return the positions in a window; an iteration ends when the step is cancelled."""
    return cancellable(np.ndindex(*(axis.kernel for axis in axes)), 1)


def max_pool_gradient(x: Array, out: Array, gradient: Array, axes: Sequence[Axis]) -> Array:
    """Add each window's gradient to its first maximum, or to all for volumes."""
    to_all = len(axes) == 3
    if not to_all and x.dtype.kind not in "iu" and np.isnan(x).any():
        return _gradient_of_first(x, out.shape, gradient, axes)
    total = np.zeros(x.shape, widen(gradient.dtype))
    pending = np.ones(out.shape, bool)
    for taps in _taps(axes):
        windows, inputs = _overlaps(axes, taps)
        hit = pending[windows] & (x[inputs] == out[windows])
        total[inputs] += np.where(hit, gradient[windows], 0)
        if not to_all:
            pending[windows] &= ~hit
    if not to_all and pending.any():  # `out` is not the maximum of `x`, which TensorFlow ignores
        return _gradient_of_first(x, out.shape, gradient, axes)
    return total.astype(gradient.dtype, copy=False)


def _gradient_of_first(
    x: Array, windows_shape: Sequence[int], gradient: Array, axes: Sequence[Axis]
) -> Array:
    """Add each window's gradient to the first element that no later element exceeds."""
    largest = np.empty(windows_shape, x.dtype)
    chosen = np.full(windows_shape, -1)
    for tap, taps in enumerate(_taps(axes)):
        windows, inputs = _overlaps(axes, taps)
        is_larger = (chosen[windows] < 0) | (largest[windows] < x[inputs])
        largest[windows] = np.where(is_larger, x[inputs], largest[windows])
        chosen[windows] = np.where(is_larger, tap, chosen[windows])
    total = np.zeros(x.shape, widen(gradient.dtype))
    for tap, taps in enumerate(_taps(axes)):
        windows, inputs = _overlaps(axes, taps)
        total[inputs] += np.where(chosen[windows] == tap, gradient[windows], 0)
    return total.astype(gradient.dtype, copy=False)


def avg_pool_gradient(shape: Sequence[int], gradient: Array, axes: Sequence[Axis]) -> Array:
    """Distribute each window's gradient evenly over the inputs it covers; channels last."""
    dtype = gradient.dtype
    wide = widen(dtype)
    share = gradient.astype(wide, copy=False) / window_counts(axes, wide)
    total = np.zeros(shape, wide)
    for taps in _taps(axes):
        windows, inputs = _overlaps(axes, taps)
        total[inputs] += share[windows]
    return total.astype(dtype, copy=False)


def _of_maximum(x: Value, out: Value, gradient: Value, plan: PoolPlan) -> Value:
    x, out, gradient = (np.asarray(value) for value in (x, out, gradient))
    return max_pool_gradient(x, out, gradient, plan.axes)


def _of_mean(gradient: Value, plan: PoolPlan) -> Value:
    return avg_pool_gradient(plan.shape, np.asarray(gradient), plan.axes)


KERNELS = pool_gradient_kernels("numpy", np, of_maximum=_of_maximum, of_mean=_of_mean)
