"""Codec of tensor maps: each key, followed by its value.

Semantics: tensorflow/core/kernels/tensor_map.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.kernels import dtype_of_value
from graphmill_plugins.kernels.tensor_map._tensor_map import Entry, TensorMap, key_of

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Value


def encode(value: TensorMap) -> VariantData:
    """Return keys and values."""
    tensors: list[Value] = []
    types: list[DType] = []
    for key, tensor, dtype in value.entries.values():
        tensors += (key, tensor)
        types += (as_dtype(dtype_of_value(key)), dtype)
    return VariantData(b"", tuple(tensors), tuple(types))


def decode(data: VariantData) -> TensorMap:
    """Return the map.

    Raises:
        InvalidArgumentError: a key has no value, or is a variant or a resource.
    """
    if len(data.tensors) % 2:
        raise InvalidArgumentError(
            f"a map of tensors consists of {len(data.tensors)} tensors: a key has no value"
        )
    entries = {}
    for index in range(0, len(data.tensors), 2):
        key, value = data.tensors[index : index + 2]
        entry = Entry(key, value, data.types[index + 1])
        entries[key_of(key, data.types[index])] = entry
    return TensorMap(entries)


CODEC: Final = VariantCodec(TensorMap, encode, decode)
