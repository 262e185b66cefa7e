"""Pooling kernels on NumPy; their ops, checks and shapes are in `ops` and `plan`.

Shifted maxima or sums over whole images reduce windows one axis at a time: a 3x3 window takes six
passes and no padded copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.pool.ops import pool_kernels
from graphmill_plugins.kernels.nn.pool.plan import lowest, window_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from graphmill_plugins.kernels.nn.window import Axis

    Array = NDArray[Any]


def shifted_reduce(x: Array, position: int, axis: Axis, ufunc: np.ufunc, empty: Any) -> Array:
    """Reduce the windows of `axis`, which is array axis `position`, by a binary ufunc.

    Args:
        empty: the result for a window that covers only padding.
    """
    if axis.kernel == 1 and axis.stride == 1 and not (axis.before or axis.after):
        return x
    before = (slice(None),) * position
    overlaps = [axis.overlap(tap) for tap in range(axis.kernel)]
    whole = [tap for tap, (windows, _) in enumerate(overlaps) if windows == slice(0, axis.out)]
    if whole:
        out = x[(*before, overlaps.pop(whole[0])[1])].copy()
    else:
        out = np.full((*x.shape[:position], axis.out, *x.shape[position + 1 :]), empty, x.dtype)
    for windows, inputs in overlaps:
        target = out[(*before, windows)]
        ufunc(target, x[(*before, inputs)], out=target)
    return out


def max_pool(x: Array, axes: Sequence[Axis]) -> Array:
    """Return the maximum of each window of channels-last `x`; NaN is the maximum, as in NumPy."""
    empty = lowest(x.dtype)
    for position, axis in enumerate(axes, 1):
        x = shifted_reduce(x, position, axis, np.maximum, empty)
    return x


def avg_pool(x: Array, axes: Sequence[Axis]) -> Array:
    """Return the mean of each window of channels-last `x`; padding does not count."""
    dtype = x.dtype
    x = x.astype(widen(dtype), copy=False)
    for position, axis in enumerate(axes, 1):
        x = shifted_reduce(x, position, axis, np.add, 0)
    mean: Array = x / window_counts(axes, x.dtype)
    return mean.astype(dtype, copy=False)


KERNELS = pool_kernels(
    "numpy",
    np,
    maximum=lambda x, plan: max_pool(np.asarray(x), plan.axes),
    mean=lambda x, plan: avg_pool(np.asarray(x), plan.axes),
)
