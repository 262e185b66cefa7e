"""Gathering, scattering and writing of slices on JAX.

Values are unknown while a program is traced: a gather takes the nearest element for an index out of
range, as XLA does; a scatter drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill_plugins._lazy_jax import jnp
from graphmill_plugins.kernels._support import checked_shape, shape_text
from graphmill_plugins.kernels.array.gather import (
    check_depth,
    gather_axis,
    ignores_bad_indices,
    take_batches,
)
from graphmill_plugins.kernels.array.scatter import check_inplace, check_scatter
from graphmill_plugins.kernels.array.slice import index_maker

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


def _take_rows(rows: Value, indices: Value) -> Value:
    if not rows.shape[0]:
        return jnp.zeros(indices.shape + rows.shape[1:], rows.dtype)
    return jnp.take(rows, indices, axis=0, mode="clip")


@kernel("Gather", backend="jax")
def gather(params: Value, indices: Value) -> Value:
    """Take rows of `params`."""
    if params.ndim == 0:
        raise InvalidArgumentError("params must be at least 1 dimensional")
    _check_not_empty(params.shape[0], indices)
    return _take_rows(params, indices)


def _check_not_empty(size: int, indices: Value) -> None:
    if size == 0 and indices.size:
        raise InvalidArgumentError("indices are given, but there is nothing to gather from")


@kernel("GatherV2", backend="jax", static=("axis",))
def gather_v2(params: Value, indices: Value, axis: Value, *, batch_dims: int) -> Value:
    """Take slices of `params` along an axis, for each entry of the batch dimensions."""
    along = gather_axis(axis, params.ndim)
    _check_not_empty(params.shape[along], indices)
    if not batch_dims:
        return jnp.take(params, indices, axis=along, mode="clip")
    near = jnp.clip(indices.astype(np.int64), 0, max(params.shape[along] - 1, 0))
    return take_batches(jnp, _take_rows, params, near, along, batch_dims)


def _coordinates(indices: Value, sizes: tuple[int, ...]) -> list[Value]:
    """Return index vectors as one array for each dimension; negative ones fall off the end."""
    wide = indices.astype(np.int64)
    return [
        jnp.where(wide[..., axis] < 0, size, wide[..., axis]) for axis, size in enumerate(sizes)
    ]


@kernel("GatherNd", backend="jax", make=True)
def gather_nd(bad_indices_policy: str) -> Callable[[Value, Value], Value]:
    """Take the slices that index vectors point to; zeros outside with the policy "IGNORE"."""
    ignore = ignores_bad_indices(bad_indices_policy)

    def take(params: Value, indices: Value) -> Value:
        sizes = check_depth(params, indices)
        if not sizes:
            return jnp.broadcast_to(params, indices.shape[:-1] + params.shape)
        if ignore:
            spot = jnp.asarray(params).at[tuple(_coordinates(indices, sizes))]
            return spot.get(mode="fill", fill_value=0)
        places = jnp.clip(indices.astype(np.int64), 0, np.array(sizes, np.int64) - 1)
        return jnp.asarray(params)[tuple(jnp.moveaxis(places, -1, 0))]

    return take


def scatter(how: str, target: Value, indices: Value, updates: Value) -> Value:
    """Combine updates into `target` at the places that index vectors point to.

    Adding truth values combines them by or.
    """
    if how == "add" and target.dtype == bool:
        how = "max"
    check_scatter(target.shape, indices, updates)
    depth = indices.shape[-1]
    if depth == 0:
        return _scatter_whole(how, target, updates)
    spot = jnp.asarray(target).at[tuple(_coordinates(indices, target.shape[:depth]))]
    return getattr(spot, how)(updates, mode="drop")


def _scatter_whole(how: str, target: Value, updates: Value) -> Value:
    """Combine updates that are each as large as the target."""
    rows = jnp.zeros(updates.shape[: updates.ndim - target.ndim], np.int32)
    return getattr(jnp.asarray(target)[None].at[rows], how)(updates)[0]


@kernel("ScatterNd", backend="jax", static=("shape",), make=True)
def scatter_nd(T: np.dtype[Any]) -> Callable[[Value, Value, Value], Value]:
    """Add updates into zeros of `shape`."""

    def spread(indices: Value, updates: Value, shape: Value) -> Value:
        return scatter("add", jnp.zeros(checked_shape(shape), T), indices, updates)

    return spread


def _tensor_scatter(how: str) -> Callable[..., Value]:
    def update(_xp: ArrayNamespace, tensor: Value, indices: Value, updates: Value) -> Value:
        return scatter(how, jnp.asarray(tensor), indices, updates)

    return update


TENSOR_SCATTER = KernelTable(
    KernelDef(ops=(op,), function=_tensor_scatter(how), backend="jax")
    for op, how in {
        "TensorScatterUpdate": "set",
        "TensorScatterAdd": "add",
        "ScatterNdNonAliasingAdd": "add",
        "TensorScatterSub": "subtract",
        "TensorScatterMin": "min",
        "TensorScatterMax": "max",
    }.items()
)


def _inplace(how: str) -> Callable[..., Value]:
    def update(_xp: ArrayNamespace, x: Value, i: Value, v: Value) -> Value:
        check_inplace(x, i, v)
        return getattr(jnp.asarray(x).at[i % max(x.shape[0], 1)], how)(v)

    return update


INPLACE = KernelTable(
    KernelDef(ops=(op,), function=_inplace(how), backend="jax")
    for op, how in {
        "InplaceUpdate": "set",
        "InplaceAdd": "add",
        "InplaceSub": "subtract",
    }.items()
)


@kernel("StridedSliceGrad", backend="jax", static=("shape", "begin", "end", "strides"), make=True)
def strided_slice_grad(
    T: np.dtype[Any],
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Callable[[Value, Value, Value, Value, Value], Value]:
    """Put `dy` where the slice was taken, in zeros of `shape`."""
    index = index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)

    def spread(shape: Value, begin: Value, end: Value, strides: Value, dy: Value) -> Value:
        sizes = checked_shape(shape)
        place = index(sizes, begin, end, strides)
        wanted = np.broadcast_to(np.int8(0), sizes)[place].shape
        if wanted != dy.shape:
            raise InvalidArgumentError(
                f"shape of dy was {shape_text(dy.shape)} instead of {shape_text(wanted)}"
            )
        return jnp.zeros(sizes, T).at[place].set(dy)

    return spread


@kernel("TensorStridedSliceUpdate", backend="jax", static=("begin", "end", "strides"), make=True)
def tensor_strided_slice_update(
    begin_mask: int,
    end_mask: int,
    ellipsis_mask: int,
    new_axis_mask: int,
    shrink_axis_mask: int,
) -> Callable[[Value, Value, Value, Value, Value], Value]:
    """Return a copy of the input with `value` written (and broadcast) into a slice."""
    index = index_maker(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)

    def update(x: Value, begin: Value, end: Value, strides: Value, value: Value) -> Value:
        return jnp.asarray(x).at[index(x.shape, begin, end, strides)].set(value)

    return update
