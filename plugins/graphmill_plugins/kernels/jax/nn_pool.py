"""Pooling and ranking kernels on JAX.

The ops, checks and shapes of poolings are in `nn.pool.ops` and `nn.pool.plan`. On the CPU, pooling
by shifted maxima or sums, which XLA fuses, is two to eight times as fast as XLA's
`reduce_window` (114x114x64 by 3x3 stride 2: 0.10 ms against 0.91 ms).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.loss import check_top_k
from graphmill_plugins.kernels.nn.pool.ops import pool_kernels
from graphmill_plugins.kernels.nn.pool.plan import lowest, window_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.pool.plan import PoolPlan
    from graphmill_plugins.kernels.nn.window import Axis

_MIN_SORTED_SIZE = 512  # of an axis whose largest elements are found by sorting it,
_MIN_SELECTED_RATIO = 2  # if it is at most this many times as long as their number
_MAX_TAPS = 24  # along one axis; for more, XLA's `reduce_window` keeps the program small


def padding(axes: Sequence[Axis]) -> list[tuple[int, int]]:
    """Return the padding before and after each axis of channels-last tensors."""
    return [(0, 0), *((axis.before, axis.after) for axis in axes), (0, 0)]


def window_arguments(axes: Sequence[Axis]) -> tuple[Any, Any, Any]:
    """Return window sizes, strides and padding of channels-last tensors for XLA."""
    return (
        (1, *(axis.kernel for axis in axes), 1),
        (1, *(axis.stride for axis in axes), 1),
        padding(axes),
    )


def _reduce(
    x: Value, axes: Sequence[Axis], function: Callable[[Value, Value], Value], empty: Any
) -> Value:
    """Reduce the windows of channels-last `x`; padding holds `empty`."""
    if any(axis.kernel > _MAX_TAPS for axis in axes):
        # XLA has fast paths for these functions, not for lambdas.
        known = lax.max if function is jnp.maximum else lax.add
        return lax.reduce_window(x, np.asarray(empty, x.dtype), known, *window_arguments(axes))
    pads = padding(axes)
    if any(before or after for before, after in pads):
        x = jnp.pad(x, pads, constant_values=empty)
    for position, axis in enumerate(axes, 1):
        before = (slice(None),) * position
        out = x[(*before, axis.taps(0))]
        for tap in range(1, axis.kernel):
            out = function(out, x[(*before, axis.taps(tap))])
        x = out
    return x


def max_pool(x: Value, axes: Sequence[Axis]) -> Value:
    """Return the maximum of each window of channels-last `x`."""
    return _reduce(x, axes, jnp.maximum, lowest(x.dtype))


def avg_pool(x: Value, axes: Sequence[Axis]) -> Value:
    """Return the mean of each window of channels-last `x`, without padding."""
    wide = widen(x.dtype)
    total = _reduce(x.astype(wide), axes, jnp.add, wide.type(0))
    return (total / window_counts(axes, wide)).astype(x.dtype)


def _or_empty(
    reduce: Callable[[Value, Sequence[Axis]], Value],
) -> Callable[[Value, PoolPlan], Value]:
    def compute(x: Value, plan: PoolPlan) -> Value:
        return jnp.zeros(plan.out, x.dtype) if 0 in plan.out else reduce(x, plan.axes)

    return compute


KERNELS = pool_kernels("jax", jnp, maximum=_or_empty(max_pool), mean=_or_empty(avg_pool))


def _top_k(values: Value, k: int, index_type: np.dtype[Any]) -> tuple[Value, Value]:
    check_top_k(values, k)

    def by_xla(values: Value) -> tuple[Value, ...]:
        return tuple(lax.top_k(values, k))

    size = values.shape[-1]
    if values.dtype == np.float32 and _MIN_SORTED_SIZE <= size <= _MIN_SELECTED_RATIO * k:
        best, order = lax.platform_dependent(
            values, cpu=partial(_first_of_sorted, k=k), default=by_xla
        )
    else:
        best, order = by_xla(values)
    return best, order.astype(index_type)


def _first_of_sorted(values: Value, k: int) -> tuple[Value, Value]:
    """Return values and indices of the `k` largest float32 numbers; NaN counts as the largest.

    Each number and its index form one integer. XLA sorts single integers in about half of the time
    that pairs take. An index breaks the tie of equal numbers, as in a stable sort.
    """
    bits = lax.bitcast_convert_type(values, np.int32)
    # The bits of negative numbers decrease; minus zero becomes zero.
    ascending = jnp.where(bits < 0, np.int32(-(2**31)) - bits, bits)
    ascending = jnp.where(jnp.isnan(values), np.int32(0x7FFFFFFF), ascending)
    index = lax.broadcasted_iota(np.int64, values.shape, values.ndim - 1)
    sorted_keys = lax.sort((~ascending).astype(np.int64) << 32 | index)
    order = (sorted_keys[..., :k] & 0xFFFFFFFF).astype(np.int32)
    return jnp.take_along_axis(values, order, -1), order


@kernel("TopKV2", backend="jax", static=("k",))
def top_k_v2(values: Value, k: Value, index_type: np.dtype[Any]) -> tuple[Value, Value]:
    """Return values and indices of the `k` largest along the last axis."""
    if np.ndim(k) != 0:
        raise errors.InvalidArgumentError(f"k must be scalar, got shape {list(np.shape(k))}")
    return _top_k(values, int(k), index_type)


@kernel("TopK", backend="jax")
def top_k_v1(values: Value, k: int) -> tuple[Value, Value]:
    """Return values and int32 indices of the `k` largest along the last axis."""
    return _top_k(values, k, np.dtype(np.int32))
