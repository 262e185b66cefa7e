"""Index vectors of gathers and scatters: their axis and length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value


def vector_size(indices: Sequence[int], axis: int) -> int:
    """Return the length of the index vectors: 1 for an axis one past the last, -1 beyond."""
    return (*indices, 1)[axis] if axis <= len(indices) else -1


def index_vectors(xp: ArrayNamespace, indices: Value, axis: int) -> Value:
    """Return indices as int64 with the index vectors along the last axis."""
    starts = indices.astype(np.int64)
    if axis == starts.ndim:
        starts = starts[..., np.newaxis]
    return xp.moveaxis(starts, axis, -1)
