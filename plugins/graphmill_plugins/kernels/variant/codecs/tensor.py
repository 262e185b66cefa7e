"""Codec of tensors in a variant."""

from __future__ import annotations

from typing import Final

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.kernels import dtype_of_value
from graphmill_plugins.kernels._variant import TensorVariant


def encode(value: TensorVariant) -> VariantData:
    """Return the tensor."""
    return VariantData(b"", (value.tensor,), (as_dtype(dtype_of_value(value.tensor)),))


def decode(data: VariantData) -> TensorVariant:
    """Return the variant with a tensor.

    Raises:
        InvalidArgumentError: there is not exactly one.
    """
    if len(data.tensors) != 1:
        raise InvalidArgumentError(
            f"a variant of a tensor has {len(data.tensors)} tensors; expected one"
        )
    return TensorVariant(data.tensors[0])


CODEC: Final = VariantCodec(TensorVariant, encode, decode)
