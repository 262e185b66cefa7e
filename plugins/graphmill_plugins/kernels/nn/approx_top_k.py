"""ApproxTopK: the largest or smallest elements of an axis; exact here, as on TensorFlow's CPU.

Semantics: tensorflow/core/kernels/topk_op.cc. The recall target does not matter for exact results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import checked_axis
from graphmill_plugins.kernels.nn.loss import top_k

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel(
    "ApproxTopK",
    backend="numpy",
    types={"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)},
    expensive=True,
)
def approx_top_k(x: Value, k: int, reduction_dimension: int, is_max_k: bool) -> tuple[Value, Value]:
    """Return values and int32 indices of the `k` largest or smallest elements along an axis.

    Raises:
        InvalidArgumentError: the axis is out of range, or has fewer than `k` elements.
    """
    x = np.asarray(x)
    axis = checked_axis(reduction_dimension, x.ndim, "reduction_dimension") if x.ndim else 0
    moved = np.moveaxis(x, axis, -1) if x.ndim else x
    values, indices = top_k(moved if is_max_k else -moved, k, np.dtype(np.int32))
    values = values if is_max_k else -values
    return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)
