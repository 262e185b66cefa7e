"""Segment reductions on JAX, for ops with a static number of segments.

Ids out of range are dropped without an error, since their values are not available during tracing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp
from graphmill_plugins.kernels._support import is_narrow
from graphmill_plugins.kernels.math.segment_ops import (
    check_prefix,
    segment_kernels,
    sparse_segment_kernels,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_START: dict[str, Callable[[np.dtype[Any]], Any]] = {
    "add": lambda dtype: dtype.type(0),
    "multiply": lambda dtype: dtype.type(1),
    "max": lambda dtype: dtypes.as_dtype(dtype).min,
    "min": lambda dtype: dtypes.as_dtype(dtype).max,
}


def combine(how: str, rows: Value, ids: Value, count: int) -> Value:
    """Combine rows by ids into `count` rows; the result of narrow floats is float32."""
    start = _START[how](rows.dtype)
    if is_narrow(rows.dtype):
        rows, start = rows.astype(np.float32), np.float32(start)
    ids = jnp.where(ids < 0, count, ids)  # JAX would count a negative index from the end
    result = jnp.full((count, *rows.shape[1:]), start, rows.dtype)
    return getattr(result.at[ids], how)(rows, mode="drop")


def _segments(how: str) -> Callable[[Value, Value, int], Value]:
    def segments(data: Value, ids: Value, count: int) -> Value:
        check_prefix(data.shape, ids.shape)
        rows = data.reshape((ids.size, *data.shape[ids.ndim :]))
        return combine(how, rows, ids.reshape(-1), count).astype(data.dtype)

    return segments


SEGMENTS = segment_kernels("jax", unsorted=_segments, ordered=_segments)


def _divisors(ids: Value, count: int, scale: str, like: Value) -> Value:
    """Return the number of rows of each segment, or its root, shaped to broadcast with `like`."""
    ones = jnp.ones(ids.shape, like.dtype)
    rows = jnp.maximum(combine("add", ones, ids, count), 1)
    if scale == "sqrtn":
        rows = jnp.sqrt(rows)
    return rows.reshape(rows.shape + (1,) * (like.ndim - 1))


def _sparse_segments(scale: str) -> Callable[[Value, Value, Value, int], Value]:
    def segments(data: Value, indices: Value, ids: Value, count: int) -> Value:
        total = combine("add", jnp.take(data, indices, axis=0, mode="clip"), ids, count)
        if scale != "sum":
            total = total / _divisors(ids, count, scale, total)
        return total.astype(data.dtype)

    return segments


def _rows_of_gradient(grad: Value, ids: Value, scale: str) -> Value:
    """Return for each gathered row the gradient of its segment, divided as in the forward op."""
    rows = grad.astype(np.float32) if is_narrow(grad.dtype) else grad
    if scale != "sum":
        rows = rows / _divisors(ids, grad.shape[0], scale, rows)
    return jnp.take(rows, ids, axis=0, mode="clip")


@kernel("_SegmentRows", backend="jax")
def segment_rows(grad: Value, ids: Value, scale: str) -> Value:
    """Return the row of `grad` for each segment id, divided according to `scale`."""
    return _rows_of_gradient(grad, ids, scale).astype(grad.dtype)


def _sparse_gradient(scale: str) -> Callable[[Value, Value, Value, int], Value]:
    def gradient(grad: Value, indices: Value, ids: Value, count: int) -> Value:
        rows = _rows_of_gradient(grad, ids, scale)
        return combine("add", rows, indices, count).astype(grad.dtype)

    return gradient


SPARSE_SEGMENTS = sparse_segment_kernels("jax", combine=_sparse_segments, gradient=_sparse_gradient)
