"""Codec of compressed elements: the metadata are a `CompressedElement` message.

Semantics: tensorflow/core/data/compression_utils.cc.
"""

from __future__ import annotations

import math
from typing import Final

from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import VariantCodec, VariantData
from graphmill.spi.protos import proto, shape_from_proto, shape_to_proto
from graphmill_plugins.kernels.dataset.compression import Component, CompressedElement
from graphmill_plugins.kernels.dataset.pipeline.files.snappy import compressed, decompressed


def encode(value: CompressedElement) -> VariantData:
    """Return the components in a block of Snappy, and their descriptions."""
    message = proto.CompressedElement(data=compressed(value.content()))
    for dtype, shape, sizes in value.components:
        message.component_metadata.add(
            dtype=dtype.enum,
            tensor_shape=shape_to_proto(shape),
            uncompressed_bytes=sizes,
        )
    return VariantData(message.SerializeToString())


def decode(data: VariantData) -> CompressedElement:
    """Return the element; its data are decompressed when its components are needed.

    Raises:
        InvalidArgumentError: the message is malformed, or a description contradicts itself.
        UnimplementedError: its version is unknown.
    """
    try:
        message = proto.CompressedElement.FromString(data.metadata)
    except DecodeError as error:
        raise InvalidArgumentError("the message of a compressed element is malformed") from error
    if message.version or data.tensors:
        raise UnimplementedError(
            f"a compressed element of version {message.version} with {len(data.tensors)} tensors; "
            "version 0 is supported, which has none"
        )
    components = [_component(metadata) for metadata in message.component_metadata]
    return CompressedElement(message.data, components, decompressed)


def _component(message: proto.CompressedComponentMetadata) -> Component:
    dtype, shape = as_dtype(message.dtype), shape_from_proto(message.tensor_shape)
    sizes = tuple(message.uncompressed_bytes)
    if dtype.is_ref or shape is None or not all(size is not None and size >= 0 for size in shape):
        raise InvalidArgumentError(
            f"a compressed element has a component of {dtype.name} with shape {shape}"
        )
    known = tuple(size for size in shape if size is not None)
    if dtype.size:
        fits = sum(sizes) == math.prod(known) * dtype.size
    else:
        fits = len(sizes) == (math.prod(known) if dtype is dtypes.string else 1)
    if not fits:
        raise InvalidArgumentError(
            f"a component of {dtype.name} with shape {list(known)} of a compressed element does "
            f"not have {sum(sizes)} bytes in {len(sizes)} parts"
        )
    return Component(dtype, known, sizes)


CODEC: Final = VariantCodec(CompressedElement, encode, decode)
