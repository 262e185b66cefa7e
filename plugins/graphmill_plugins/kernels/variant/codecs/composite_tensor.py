"""Codec of composite tensors.

Semantics: tensorflow/core/kernels/composite_tensor_variant.cc. The metadata describe the Python
type, which the kernels do not need: they are sent as an empty message.
"""

from __future__ import annotations

from typing import Final

from graphmill.spi import VariantCodec, VariantData
from graphmill_plugins.kernels.variant.composite_tensor import CompositeTensor


def encode(value: CompositeTensor) -> VariantData:
    """Return the components."""
    return VariantData(b"", value.components, value.types)


def decode(data: VariantData) -> CompositeTensor:
    """Return the composite tensor."""
    return CompositeTensor(data.tensors, data.types)


CODEC: Final = VariantCodec(CompositeTensor, encode, decode)
