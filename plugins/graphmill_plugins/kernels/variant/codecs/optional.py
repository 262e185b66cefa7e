"""Codec of optionals: the metadata says whether there is a value, the tensors are its components.

Semantics: tensorflow/core/framework/dataset.cc and tensorflow/core/kernels/data/optional_ops.h.
"""

from __future__ import annotations

from typing import Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill_plugins.kernels.dataset.iterators._optional import Optional


def encode(value: Optional) -> VariantData:
    """Return the components, if there is a value."""
    if value.values is None:
        return VariantData(b"\0")
    return VariantData(b"\1", value.values, value.types)


def decode(data: VariantData) -> Optional:
    """Return the optional.

    Raises:
        InvalidArgumentError: the metadata are no boolean, or an empty optional has components.
    """
    if data.metadata not in (b"\0", b"\1") or (data.metadata == b"\0" and data.tensors):
        raise InvalidArgumentError(
            f"an optional of {len(data.tensors)} tensors has the metadata "
            f"{bytes(data.metadata[:10])!r}; expected 0 for none, 1 for a value"
        )
    return Optional(data.tensors, data.types) if data.metadata == b"\1" else Optional()


CODEC: Final = VariantCodec(Optional, encode, decode)
