"""Codec of ragged tensors: the row splits, outermost first, and the flat values.

Semantics: tensorflow/core/kernels/ragged_tensor_variant.cc.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.kernels import dtype_of_value
from graphmill_plugins.kernels.ragged._ragged import RaggedVariant, check_nested


def encode(value: RaggedVariant) -> VariantData:
    """Return splits and values."""
    tensors = (*value.nested_splits, value.values)
    return VariantData(b"", tensors, tuple(as_dtype(dtype_of_value(tensor)) for tensor in tensors))


def decode(data: VariantData) -> RaggedVariant:
    """Return the ragged tensor.

    Raises:
        InvalidArgumentError: there are no values, or the splits do not fit them.
    """
    if not data.tensors:
        raise InvalidArgumentError("a ragged tensor has neither splits nor values")
    *splits, values = data.tensors
    if not set(data.types[:-1]) <= {dtypes.int32, dtypes.int64}:
        raise InvalidArgumentError("the splits of a ragged tensor are not integers")
    check_nested([np.asarray(row_splits) for row_splits in splits], np.asarray(values))
    return RaggedVariant(tuple(splits), values)


CODEC: Final = VariantCodec(RaggedVariant, encode, decode)
