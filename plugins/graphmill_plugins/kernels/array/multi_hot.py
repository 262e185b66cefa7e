"""The kernel of `_MultiHot`, an op of graph rewrites that counts the occurrences of indices."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_axis

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@kernel("_MultiHot", make=True)
def multi_hot(
    xp: ArrayNamespace, depth: int, axes: tuple[int, ...], keep_dims: bool, dtype: np.dtype[Any]
) -> Callable[[Value], Value]:
    """Return the sum over `axes` of the one-hot vectors of the indices."""

    def count(indices: Value) -> Value:
        rank = indices.ndim + 1
        reduced = {checked_axis(axis, rank, "reduction dimension") for axis in axes}
        kept_axes = [axis for axis in range(indices.ndim) if axis not in reduced]
        summed = [axis for axis in range(indices.ndim) if axis in reduced]
        shape = [indices.shape[axis] for axis in kept_axes]
        inner = math.prod(indices.shape[axis] for axis in summed)
        rows = (
            indices.transpose(*kept_axes, *summed).reshape(math.prod(shape), inner).astype(np.int64)
        )
        counts = _counts(xp, rows, depth).astype(dtype).reshape(*shape, depth)
        if indices.ndim in reduced:
            counts = xp.sum(counts, axis=-1, dtype=dtype)
        if not keep_dims:
            return counts
        whole = (*indices.shape, depth)
        return counts.reshape([1 if axis in reduced else whole[axis] for axis in range(rank)])

    return count


def _counts(xp: ArrayNamespace, rows: Value, depth: int) -> Value:
    """Return an array (rows, depth) of the counts of each index in range in a row."""
    count = rows.shape[0]
    # Indices out of range are counted in an extra column, which is dropped.
    bins = xp.where((rows >= 0) & (rows < depth), rows, depth)
    bins = bins + np.arange(count, dtype=np.int64)[:, None] * (depth + 1)
    size = count * (depth + 1)
    counts = xp.bincount(bins.reshape(-1), **_length(xp, size))
    return counts.reshape(count, depth + 1)[:, :depth]


def _length(xp: ArrayNamespace, size: int) -> dict[str, int]:
    # np.bincount takes a minimum length and jnp.bincount the length; here they are equal.
    return {"minlength": size} if xp is np else {"length": size}
