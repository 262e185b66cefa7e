"""Gather, scatter and slice assignment on JAX.

Index values are not available during tracing. For an index out of range, a gather returns the
nearest element, as XLA does, and a scatter drops the update.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins._lazy_jax import jnp
from graphmill_plugins.kernels.array.index_ops import (
    gather_kernels,
    scatter_kernels,
    slice_kernels,
)
from graphmill_plugins.kernels.array.index_plan import check_slice_shape, take_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value
    from graphmill_plugins.kernels.array.index_plan import Index


def _take_rows(rows: Value, indices: Value) -> Value:
    if not rows.shape[0]:
        return jnp.zeros(indices.shape + rows.shape[1:], rows.dtype)
    return jnp.take(rows, indices, axis=0, mode="clip")


def _gather(_dtype: np.dtype[Any], batch_dims: int) -> Callable[[Value, Value, int], Value]:
    def take(params: Value, indices: Value, axis: int) -> Value:
        size = params.shape[axis]
        if size == 0 and indices.size:
            raise InvalidArgumentError("there are indices, but the tensor to gather from is empty")
        if not batch_dims:
            return jnp.take(params, indices, axis=axis, mode="clip")
        near = jnp.clip(indices.astype(np.int64), 0, max(size - 1, 0))
        return take_batches(jnp, _take_rows, params, near, axis, batch_dims)

    return take


def _coordinates(indices: Value, sizes: tuple[int, ...]) -> list[Value]:
    """Return index vectors as one array for each dimension, with negative indices out of range."""
    wide = indices.astype(np.int64)
    return [
        jnp.where(wide[..., axis] < 0, size, wide[..., axis]) for axis, size in enumerate(sizes)
    ]


def _gather_vectors(
    _dtype: np.dtype[Any], ignore: bool
) -> Callable[[Value, Value, tuple[int, ...]], Value]:
    def take(params: Value, indices: Value, sizes: tuple[int, ...]) -> Value:
        if ignore:
            selected = jnp.asarray(params).at[tuple(_coordinates(indices, sizes))]
            return selected.get(mode="fill", fill_value=0)
        clipped = jnp.clip(indices.astype(np.int64), 0, np.array(sizes, np.int64) - 1)
        return jnp.asarray(params)[tuple(jnp.moveaxis(clipped, -1, 0))]

    return take


def scatter(how: str, target: Value, indices: Value, updates: Value) -> Value:
    """Combine updates into `target` at the positions given by index vectors.

    Booleans are added by logical or.
    """
    if how == "add" and target.dtype == bool:
        how = "max"
    updates = _without_nan(how, updates)
    depth = indices.shape[-1]
    if depth == 0:
        return _scatter_whole(how, target, updates)
    selected = target.at[tuple(_coordinates(indices, target.shape[:depth]))]
    return getattr(selected, how)(updates, mode="drop")


def _without_nan(how: str, updates: Value) -> Value:
    """Replace NaN in the updates of extrema by the neutral infinity, since TensorFlow ignores NaN.

    XLA's minimum and maximum propagate NaN.
    """
    if how not in ("min", "max") or not jnp.issubdtype(updates.dtype, np.floating):
        return updates
    return jnp.where(jnp.isnan(updates), np.inf if how == "min" else -np.inf, updates)


def _scatter_whole(how: str, target: Value, updates: Value) -> Value:
    """Combine updates that each have the shape of the target."""
    rows = jnp.zeros(updates.shape[: updates.ndim - target.ndim], np.int32)
    return getattr(target[None].at[rows], how)(updates)[0]


def _inplace(how: str) -> Callable[[Value, Value, Value], Value]:
    def update(x: Value, i: Value, v: Value) -> Value:
        return getattr(jnp.asarray(x).at[i % max(x.shape[0], 1)], how)(v)

    return update


def _put(sizes: tuple[int, ...], dtype: np.dtype[Any], index: Index, dy: Value) -> Value:
    check_slice_shape(dy.shape, np.broadcast_to(np.int8(0), sizes)[index].shape)
    return jnp.zeros(sizes, dtype).at[index].set(dy)


def _write(x: Value, index: Index, value: Value) -> Value:
    return jnp.asarray(x).at[index].set(value)


GATHERS = gather_kernels("jax", jnp, gather=_gather, at_vectors=_gather_vectors)
SCATTERS = scatter_kernels(
    "jax",
    # An index out of range is dropped, whatever `bad_indices_policy` says.
    scatter=lambda how, _ignore: partial(scatter, how),
    own=lambda tensor: jnp.asarray(tensor),
    zeros=lambda sizes, dtype: jnp.zeros(sizes, dtype),
    inplace=_inplace,
)
SLICES = slice_kernels("jax", put=_put, write=_write)
