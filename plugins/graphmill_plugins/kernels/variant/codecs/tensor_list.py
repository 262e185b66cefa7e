"""Codec of tensor lists: the tensors are the elements that are set.

The metadata are varints: the number of elements that are not set and their indices, the element
type, and the maximum number of elements; then a TensorShapeProto.

Semantics: tensorflow/core/kernels/tensor_list.cc.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.kernels import shape_of_value
from graphmill.spi.protos import (
    proto,
    read_varint,
    shape_from_proto,
    shape_to_proto,
    write_varint,
)
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.tensor_list._tensor_list import TensorList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value

_UINT64: Final = 1 << 64


def encode(value: TensorList) -> VariantData:
    """Return the elements that are set, and a description of the list."""
    elements = value.elements()
    unset = [index for index, element in enumerate(elements) if element is None]
    tensors = tuple(element for element in elements if element is not None)
    numbers = (len(unset), *unset, value.element_dtype.enum, value.max_num_elements % _UINT64)
    shape = shape_to_proto(value.element_shape).SerializeToString()
    metadata = b"".join((*map(write_varint, numbers), shape))
    return VariantData(metadata, tensors, (value.element_dtype,) * len(tensors))


def decode(data: VariantData) -> TensorList:
    """Return the list.

    Raises:
        InvalidArgumentError: the metadata are malformed, or an element does not fit them.
        DataLossError: the metadata are cut off.
    """
    metadata = data.metadata
    end = len(metadata)
    count, position = read_varint(metadata, 0, end)
    if count > end:  # an index takes a byte at least
        raise InvalidArgumentError(f"{end} bytes of a tensor list cannot hold {count} indices")
    unset = []
    for _ in range(count):
        index, position = read_varint(metadata, position, end)
        unset.append(index)
    enum, position = read_varint(metadata, position, end)
    max_num_elements, position = read_varint(metadata, position, end)
    dtype, shape = as_dtype(enum), _shape(metadata[position:])
    if dtype.is_ref:
        raise InvalidArgumentError(f"a tensor list cannot have elements of {dtype.name}")
    _check_elements(data, dtype, shape)
    if max_num_elements >= _UINT64 // 2:
        max_num_elements -= _UINT64
    return TensorList(dtype, shape, _with_unset(data.tensors, unset), max_num_elements)


def _shape(data: bytes) -> Shape:
    try:
        return shape_from_proto(proto.TensorShapeProto.FromString(data))
    except DecodeError as error:
        raise InvalidArgumentError("the element shape of a tensor list is malformed") from error


def _check_elements(data: VariantData, dtype: DType, shape: Shape) -> None:
    for tensor, actual in zip(data.tensors, data.types, strict=True):
        found = shape_of_value(tensor, actual)
        if actual is not dtype or not is_compatible(shape, found):
            raise InvalidArgumentError(
                f"a tensor list of {dtype.name} with element shape {shape_text(shape)} has an "
                f"element of {actual.name} with shape {shape_text(found)}"
            )


def _with_unset(tensors: Sequence[Value], unset: Sequence[int]) -> list[Value]:
    """Return the elements with None at some indices, which ascend."""
    elements: list[Value] = []
    remaining = iter(tensors)
    total = len(tensors) + len(unset)
    for index in unset:
        if not len(elements) <= index < total:
            raise InvalidArgumentError(
                f"the indices of the unset elements of a list of {total} tensors do not ascend"
            )
        elements += itertools.islice(remaining, index - len(elements))
        elements.append(None)
    elements += remaining
    return elements


CODEC: Final = VariantCodec(TensorList, encode, decode)
