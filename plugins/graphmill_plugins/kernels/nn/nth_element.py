"""NthElement: the n-th smallest or largest element of the last axis.

Semantics: tensorflow/core/kernels/nth_element_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import scalar_int, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("NthElement", types={"T": dtypes.REAL}, static=("n",), expensive=True)
def nth_element(xp: ArrayNamespace, x: Value, n: Value, reverse: bool) -> Value:
    """Return the n-th smallest element of each row, or with `reverse` the n-th largest."""
    index = scalar_int("n", n)
    if not x.ndim:
        raise InvalidArgumentError(f"Input must be >= 1-D, got shape {shape_text(x.shape)}")
    size = x.shape[-1]
    if not 0 <= index < size:
        raise InvalidArgumentError(f"Input must have at least n+1 columns, got n = {index}, {size}")
    if reverse:
        index = size - 1 - index
    ordered = np.partition(x, index, axis=-1) if xp is np else xp.sort(x, axis=-1)
    return ordered[..., index]
