"""Bin counts on JAX, for ops with a static number of bins; negative values are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp
from graphmill_plugins.kernels._support import scalar_int
from graphmill_plugins.kernels.math.count import bins_of, check_weights

if TYPE_CHECKING:
    from graphmill.spi import Value


def _count_into(
    shape: tuple[int, ...], indices: tuple[Value, ...], weights: Value, binary: bool
) -> Value:
    """Add weights (or ones) into the bins at `indices`; values out of range are dropped."""
    *rows, bins = indices
    check_weights(weights, bins.shape)
    bins = jnp.where(bins < 0, shape[-1], bins)
    selected = jnp.zeros(shape, weights.dtype).at[(*rows, bins)]
    if binary:
        return selected.set(1, mode="drop")
    return selected.add(weights if weights.size else 1, mode="drop")


@kernel("Bincount", backend="jax", static=("size",))
def bincount(arr: Value, size: Value, weights: Value) -> Value:
    """Count (or add the weights of) the values 0 … size-1."""
    return _count_into((bins_of(size),), (arr,), weights, binary=False)


@kernel("DenseBincount", backend="jax", static=("size",))
def dense_bincount(x: Value, size: Value, weights: Value, *, binary_output: bool) -> Value:
    """Count values of a vector, or of each row of a matrix."""
    if x.ndim > 2:
        raise InvalidArgumentError(f"Shape must be at most rank 2 but is rank {x.ndim}")
    shape = (*x.shape[:-1], bins_of(size))
    indices: tuple[Value, ...] = (x,)
    if x.ndim == 2:
        indices = (np.broadcast_to(np.arange(x.shape[0])[:, None], x.shape), x)
    return _count_into(shape, indices, weights, binary_output)


@kernel("HistogramFixedWidth", backend="jax", static=("nbins",))
def histogram_fixed_width(
    values: Value, value_range: Value, nbins: Value, *, dtype: np.dtype[Any]
) -> Value:
    """Count values in bins of equal width; the end bins include values out of range."""
    count = scalar_int("nbins", nbins)
    if count <= 0:
        raise InvalidArgumentError(f"nbins should be a positive number, but got '{count}'")
    if count == 1:
        return jnp.full(1, values.size, dtype)  # NaN is counted, too
    wide = value_range.astype(np.float64)
    step = (wide[1] - wide[0]) / count
    above = jnp.maximum(values, value_range[0])
    if values.dtype.kind == "i":
        above = above.astype(np.float64)  # differences of large integers overflow
    above = (above - value_range[0]).astype(np.float64)
    indices = jnp.minimum(above / step, count - 1).astype(np.int32)
    return jnp.zeros(count, dtype).at[indices.reshape(-1)].add(1, mode="drop")
