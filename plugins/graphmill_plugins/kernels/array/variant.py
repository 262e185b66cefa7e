"""Array kernels for variants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins.kernels._variant import addable, mapped

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


@kernel("ZerosLike", types={"T": (dtypes.variant,)}, priority=1, host=True)
def zeros_like_variant(xp: ArrayNamespace, x: Value) -> Value:
    """Make the zero of each object. Semantics: tensorflow/core/util/tensor_ops_util.h."""
    return mapped(lambda value: addable(value).zeros_like(xp), x)
