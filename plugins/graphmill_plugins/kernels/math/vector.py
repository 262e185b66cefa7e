"""Vectors: cross products, nearest neighbours, packed comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import product
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("Cross")
def cross(xp: ArrayNamespace, a: Value, b: Value) -> Value:
    """Compute cross products of vectors of three elements in the last dimension."""
    if a.shape != b.shape:
        raise InvalidArgumentError(
            f"Both inputs must be of same shape: {shape_text(a.shape)} vs. {shape_text(b.shape)}"
        )
    if not a.ndim:
        raise InvalidArgumentError("Input must be at least 1D, got scalars")
    if a.shape[-1:] != (3,):
        raise FailedPreconditionError(
            "Cross-products are only defined for 3-element vectors, got shape "
            f"{shape_text(a.shape)}"
        )
    (a0, a1, a2), (b0, b1, b2) = ((v[..., 0], v[..., 1], v[..., 2]) for v in (a, b))
    return xp.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], -1)


@kernel("NearestNeighbors", backend="numpy")
def nearest_neighbors(points: Value, centers: Value, k: Value) -> tuple[Value, Value]:
    """Return the indices of the k nearest centers of each point, and squared distances."""
    if k.ndim:
        raise InvalidArgumentError(f"Input k should be a scalar, got shape {shape_text(k.shape)}")
    count = min(k.item(), centers.shape[0])
    if count < 0:
        raise InvalidArgumentError(f"k must not be negative, got {count}")
    # The table of distances, and that of the sorted indices (eight bytes each), have this shape.
    check_size((points.shape[0], centers.shape[0]), "the table of distances", itemsize=8)
    squares = (points * points).sum(1)[:, None] + (centers * centers).sum(1)
    distances = np.maximum(squares - product(2 * points, centers.T), 0)
    order = np.argsort(distances, 1, kind="stable")[:, :count]
    return order, np.take_along_axis(distances, order, 1)


@kernel("CompareAndBitpack", backend="numpy")
def compare_and_bitpack(x: Value, threshold: Value) -> Value:
    """Pack `x > threshold` into bytes of eight elements, the first in the highest bit."""
    if threshold.ndim:
        raise InvalidArgumentError(
            f"Compare must be passed a scalar, got shape {shape_text(threshold.shape)}"
        )
    if x.ndim < 1 or x.shape[-1] % 8:
        raise InvalidArgumentError(
            "The inner dimension of the input should be divisible by 8, got shape "
            f"{shape_text(x.shape)}"
        )
    return np.packbits(x > threshold, axis=-1)
