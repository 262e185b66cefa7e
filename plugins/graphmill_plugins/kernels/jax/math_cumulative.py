"""Cumulative sums, products and sums of powers on JAX.

XLA's own algorithm reduces windows as long as the axis. On the CPU, a loop along the axis is two to
five times as fast (16x128x128 along the middle axis: 0.22 ms against 1.2 ms), and it adds in
TensorFlow's order.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._support import in_float32
from graphmill_plugins.kernels.math.cumulative import scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Scan = Callable[[Value, Value], Value]


def _loop(x: Value, *, axis: int, combine: Callable[[Value, Value], Value], start: Any) -> Value:
    """Combine along an axis, one element after the other."""
    rows = jnp.moveaxis(x, axis, 0)

    def step(total: Value, row: Value) -> tuple[Value, Value]:
        total = combine(total, row)
        return total, total

    _, result = lax.scan(step, jnp.full(rows.shape[1:], start, rows.dtype), rows)
    return jnp.moveaxis(result, 0, axis)


def _accumulate(
    combine: Callable[[Value, Value], Value], whole: Callable[..., Value], start: Any
) -> Callable[[Value, int], Value]:
    def accumulate(x: Value, axis: int) -> Value:
        x = jnp.asarray(x)
        if not x.size:
            return x
        cpu = partial(_loop, axis=axis, combine=combine, start=start)
        other = partial(whole, axis=axis, dtype=x.dtype)
        result: Value = lax.platform_dependent(x, cpu=cpu, default=other)
        return result

    return accumulate


@kernel("Cumsum", backend="jax", types={"T": dtypes.NUMERIC}, static=("axis",), make=True)
def cumsum(xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool) -> Scan:
    """Add along an axis, in the type of the input."""
    start = T.type(0)
    return scan(xp, _accumulate(jnp.add, jnp.cumsum, start), exclusive, reverse, start)


@kernel("Cumprod", backend="jax", types={"T": dtypes.NUMERIC}, static=("axis",), make=True)
def cumprod(xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool) -> Scan:
    """Multiply along an axis, in the type of the input."""
    start = T.type(1)
    return scan(xp, _accumulate(jnp.multiply, jnp.cumprod, start), exclusive, reverse, start)


@kernel("CumulativeLogsumexp", backend="jax", static=("axis",), make=True)
def cumulative_logsumexp(
    xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool
) -> Scan:
    """Compute log(cumsum(exp(x))) stably; an exclusive scan begins with minus infinity."""

    def accumulate(x: Value, axis: int) -> Value:
        return in_float32(T, partial(_sums_of_powers, axis=axis))(x) if x.size else x

    return scan(xp, accumulate, exclusive, reverse, T.type(-np.inf))


def _sums_of_powers(x: Value, axis: int) -> Value:
    """Compute log(cumsum(exp(x))) in blocks, which a loop computes together.

    The axis is split into about as many blocks as each has elements. XLA's own algorithm, windows
    as long as the axis, takes a hundred times as long for 20,000 elements.
    """
    loop = partial(_loop, axis=0, combine=jnp.logaddexp, start=-np.inf)
    rows = jnp.moveaxis(x, axis, 0)
    length, *others = rows.shape
    size = math.isqrt(length - 1) + 1
    count = -(-length // size)
    fill = [(0, count * size - length), *[(0, 0)] * len(others)]
    blocks = jnp.pad(rows, fill, constant_values=-np.inf).reshape(count, size, *others)
    within = loop(jnp.moveaxis(blocks, 1, 0))
    sums = loop(within[-1])
    before = jnp.concatenate([jnp.full_like(sums[:1], -np.inf), sums[:-1]])
    result = jnp.moveaxis(jnp.logaddexp(within, before), 0, 1)
    return jnp.moveaxis(result.reshape(count * size, *others)[:length], 0, axis)
