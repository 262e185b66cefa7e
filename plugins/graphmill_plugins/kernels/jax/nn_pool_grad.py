"""Gradient kernels of poolings on JAX.

Their ops, checks and shapes are in `nn.pool.ops` and `nn.pool.plan`. The gradients of all taps are
padded between elements and summed, which XLA fuses. On the CPU this is 5 to 20 times as fast as
XLA's select-and-scatter (8x35x35x192 by 3x3: 6.6 ms against 137 ms). Large windows use
select-and-scatter, to keep the program small. It selects the first of equal maxima too, but
recomputes the maxima instead of using the op's `orig_output`.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._lazy_jax import jax, jnp, lax
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.jax.nn_pool import padding, window_arguments
from graphmill_plugins.kernels.nn.pool.ops import pool_gradient_kernels
from graphmill_plugins.kernels.nn.pool.plan import lowest, window_counts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Value
    from graphmill_plugins.kernels.nn.pool.plan import PoolPlan
    from graphmill_plugins.kernels.nn.window import Axis

_MAX_TAPS: Final = 49


def _max_gradient(x: Value, out: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    taps = math.prod(axis.kernel for axis in axes)
    if taps <= _MAX_TAPS or x.dtype.kind in "iu" or len(axes) == 3:
        return _max_gradient_by_taps(x, out, gradient, axes)
    window, strides, pads = window_arguments(axes)
    start = np.asarray(lowest(x.dtype), x.dtype)

    def pool(value: Value) -> Value:
        return lax.reduce_window(value, start, lax.max, window, strides, pads)

    _, transpose = jax.vjp(pool, x)
    return transpose(gradient)[0]


def _max_gradient_by_taps(x: Value, out: Value, gradient: Value, axes: Sequence[Axis]) -> Value:
    """Add each gradient to the first maximum, or to all maxima of volumes, tap by tap."""
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    pads = padding(axes)
    # Padding must not count as a maximum: floats are padded with NaN, which equals nothing, and
    # integers need a mask, which is slower.
    is_whole = x.dtype.kind in "iu"
    # The barrier stops XLA from recomputing the pooling's input for every tap.
    x = lax.optimization_barrier(x)
    padded = jnp.pad(x, pads, constant_values=0 if is_whole else np.nan)
    inside = np.pad(np.ones((1, *(axis.size for axis in axes), 1), bool), pads)
    pending = jnp.ones(out.shape, bool)
    total: Any = None
    for taps in np.ndindex(*(axis.kernel for axis in axes)):
        part = (slice(None), *(axis.taps(tap) for axis, tap in zip(axes, taps, strict=True)))
        hit = pending & (padded[part] == out)
        if is_whole:
            hit = hit & inside[part]
        if len(axes) == 2:
            pending = pending & ~hit
        share = jnp.where(hit, gradient, 0).astype(wide)
        for position, (axis, tap) in enumerate(zip(axes, taps, strict=True), 1):
            share = spread(share, axis, tap, position)
        total = share if total is None else total + share
    return inner(total, axes).astype(dtype)


def spread(values: Value, axis: Axis, tap: int, position: int) -> Value:
    """Return the padded input with each window's value at the tap's position, zeros elsewhere."""
    first = tap * axis.dilation
    last = first + (axis.out - 1) * axis.stride
    config = [(0, 0, 0)] * values.ndim
    config[position] = (first, axis.padded - 1 - last, axis.stride - 1)
    return lax.pad(values, np.zeros((), values.dtype), config)


def inner(values: Value, axes: Sequence[Axis]) -> Value:
    """Remove the padding."""
    parts = (slice(axis.before, axis.before + axis.size) for axis in axes)
    return values[(slice(None), *parts)]


def _avg_gradient(shape: Sequence[int], gradient: Value, axes: Sequence[Axis]) -> Value:
    dtype, wide = gradient.dtype, widen(gradient.dtype)
    share = gradient.astype(wide) / window_counts(axes, wide)
    if max(axis.kernel for axis in axes) > _MAX_TAPS:
        return _avg_gradient_by_windows(shape, share, axes).astype(dtype)
    for position, axis in enumerate(axes, 1):
        parts = [spread(share, axis, tap, position) for tap in range(axis.kernel)]
        share = functools.reduce(jnp.add, parts)
    return inner(share, axes).astype(dtype)


def _avg_gradient_by_windows(shape: Sequence[int], share: Value, axes: Sequence[Axis]) -> Value:
    window, strides, pads = window_arguments(axes)

    def total(value: Value) -> Value:
        return lax.reduce_window(value, share.dtype.type(0), lax.add, window, strides, pads)

    argument = jax.ShapeDtypeStruct(tuple(shape), share.dtype)
    return jax.linear_transpose(total, argument)(share)[0]


def _of_maximum(x: Value, out: Value, gradient: Value, plan: PoolPlan) -> Value:
    x, out, gradient = map(jnp.asarray, (x, out, gradient))
    if 0 in plan.shape or 0 in plan.out:
        return jnp.zeros_like(x)
    return _max_gradient(x, out, gradient, plan.axes)


def _of_mean(gradient: Value, plan: PoolPlan) -> Value:
    gradient = jnp.asarray(gradient)
    if 0 in plan.shape or 0 in plan.out:
        return jnp.zeros(plan.shape, gradient.dtype)
    return _avg_gradient(plan.shape, gradient, plan.axes)


KERNELS = pool_gradient_kernels("jax", jnp, of_maximum=_of_maximum, of_mean=_of_mean)
