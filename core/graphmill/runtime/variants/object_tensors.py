"""Convert tensors of variants and of resource handles to `TensorProto` messages and back.

Semantics: `EncodeVariantList` and `DecodeVariantList` of
tensorflow/core/framework/variant_tensor_data.cc and variant.cc, and `Tensor::FromProto` of
tensorflow/core/framework/tensor.cc. Elements are in `tensor_content`, as strings are, or in
`variant_val`; tensors in a variant always use `variant_val`, as TensorFlow's do.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from graphmill import dtypes, proto
from graphmill.errors import InvalidArgumentError
from graphmill.ops.tensor_proto import (
    count_stored_values,
    numpy_to_tensor_proto,
    split_strings,
    tensor_proto_dtype,
    tensor_proto_shape,
    tensor_proto_to_numpy,
)
from graphmill.proto.wire import write_varint
from graphmill.runtime.resources.variables import ResourceHandle
from graphmill.runtime.value_shape import dtype_of_value
from graphmill.runtime.variants.codec_lookup import codec_names, codec_of_name, codec_of_value
from graphmill.runtime.variants.variant_codec import VariantData

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.proto import TensorProto
    from graphmill.proto.tensor_pb2 import VariantTensorDataProto
    from graphmill.runtime.variants.variant_codec import VariantRegistry
    from graphmill.typing import Value

_MAX_DEPTH: Final = 40  # protobuf's parsers accept 100 messages within each other, two a level
_MAX_REPEATED_BYTES: Final = 64 * 1024 * 1024
_MAX_MESSAGE_BYTES: Final = 2**31 - 1
_POINTER_BYTES: Final = 8


def variants_to_tensor_proto(value: Value, variants: VariantRegistry) -> TensorProto:
    """Return the message of a variant scalar, or of an array of variants.

    Args:
        value: the object itself, or an object array. None stands for a variant without a value.
        variants: the codecs.

    Raises:
        UnimplementedError: an element has no codec.
        InvalidArgumentError: it is too large, or its variants are nested too deeply.
    """
    encoded = variants_to_messages(value, variants)
    message = _tensor_message(dtypes.variant, _elements(value)[0])
    message.tensor_content = b"".join([*(write_varint(len(item)) for item in encoded), *encoded])
    return message


def variants_to_messages(value: Value, variants: VariantRegistry) -> list[bytes]:
    """Return a serialized `VariantTensorDataProto` for each element of a tensor of variants.

    Arguments and errors: as `variants_to_tensor_proto`.
    """
    messages = _Writer(variants).variants(_elements(value)[1], 0)
    return [message.SerializeToString() for message in messages]


def variants_from_messages(
    messages: Sequence[bytes], shape: tuple[int, ...], variants: VariantRegistry
) -> Value:
    """Return the object of a serialized scalar variant, or an object array for a tensor.

    Args:
        messages: a `VariantTensorDataProto` for each element.
        shape: the shape of the tensor, of that many elements.
        variants: the codecs.

    Raises:
        InvalidArgumentError, UnimplementedError: as for `variants_from_tensor_proto`.
    """
    parsed = [_variant_message(message) for message in messages]
    return _shaped(_Reader(variants).elements(parsed, 0), shape, dtypes.variant)


def variants_from_tensor_proto(
    message: TensorProto, variants: VariantRegistry, content: bytes | memoryview | None = None
) -> Value:
    """Return the object of a scalar variant, or an object array.

    Tensors in the variants may be read-only, as those of `tensor_proto_to_numpy` are.

    Args:
        message: the tensor.
        variants: the codecs.
        content: its `tensor_content`, if that is not in the message.

    Raises:
        InvalidArgumentError: the message is malformed, represents far more memory than its size
            suggests, or has variants that are nested too deeply.
        UnimplementedError: the type of an element has no codec.
        ResourceExhaustedError: there is not enough memory for the value.
    """
    content = message.tensor_content if content is None else content
    return _Reader(variants).variants(message, content, 0)


def handles_to_tensor_proto(value: Value) -> TensorProto:
    """Return the message of a resource handle, or of an array of them.

    Raises:
        InvalidArgumentError: an element is no handle.
    """
    shape, elements = _elements(value)
    message = _tensor_message(dtypes.resource, shape)
    message.resource_handle_val.extend(_handle_proto(handle) for handle in elements)
    return message


def handles_from_tensor_proto(message: TensorProto) -> Value:
    """Return a scalar handle, or an array of handles; their resources are looked up on use.

    Raises:
        InvalidArgumentError: the number of handles does not match the shape.
    """
    shape = tensor_proto_shape(message)
    if math.prod(shape) != len(message.resource_handle_val):
        raise InvalidArgumentError(
            f"TensorProto of resource with shape {list(shape)} has "
            f"{len(message.resource_handle_val)} handles"
        )
    handles = [
        ResourceHandle(handle.device, handle.container, handle.name, handle.maybe_type_name)
        for handle in message.resource_handle_val
    ]
    return _shaped(handles, shape, dtypes.resource)


class _Writer:
    """Writes variants, and the tensors in them, up to the size of a message."""

    def __init__(self, variants: VariantRegistry) -> None:
        self._variants = variants
        self._names = codec_names(variants)
        self._size = 0

    def variants(self, values: Iterable[object], depth: int) -> list[VariantTensorDataProto]:
        _check_depth(depth)
        return [self._variant(value, depth) for value in values]

    def _variant(self, value: object, depth: int) -> VariantTensorDataProto:
        if value is None:
            return proto.VariantTensorDataProto()
        type_name, codec = codec_of_value(value, self._names, self._variants)
        data = codec.encode(value)
        self._count(len(data.metadata))
        pairs = zip(data.tensors, data.types, strict=True)
        return proto.VariantTensorDataProto(
            type_name=type_name,
            metadata=data.metadata,
            tensors=[self._tensor(tensor, dtype, depth + 1) for tensor, dtype in pairs],
        )

    def _tensor(self, value: Value, dtype: DType, depth: int) -> TensorProto:
        if dtype is dtypes.resource:
            return handles_to_tensor_proto(value)
        if dtype is not dtypes.variant:
            array = np.asarray(value)
            self._count(array.nbytes)
            message = numpy_to_tensor_proto(array, dtype)
            message.tensor_shape.SetInParent()
            return message
        shape, elements = _elements(value)
        message = _tensor_message(dtype, shape)
        message.variant_val.extend(self.variants(elements, depth))
        return message

    def _count(self, num_bytes: int) -> None:
        self._size += num_bytes
        if self._size > _MAX_MESSAGE_BYTES:
            raise InvalidArgumentError(
                f"the tensors in a variant have more than {self._size} bytes, which do not fit "
                "into a message (2 GiB at most); send parts"
            )


class _Reader:
    """Reads variants, and the tensors in them, with bounded memory and depth."""

    def __init__(self, variants: VariantRegistry) -> None:
        self._variants = variants
        self._budget = _MAX_REPEATED_BYTES

    def variants(self, message: TensorProto, content: bytes | memoryview, depth: int) -> Value:
        _check_depth(depth)
        shape = tensor_proto_shape(message)
        count = math.prod(shape)
        elements: Sequence[VariantTensorDataProto] = (
            [_variant_message(item) for item in split_strings(bytes(content), count)]
            if content
            else message.variant_val
        )
        missing = count - len(elements)
        if missing < 0:
            raise InvalidArgumentError(
                f"TensorProto of variant with shape {list(shape)} has {len(elements)} elements"
            )
        self._charge(missing * _POINTER_BYTES)
        values = self.elements(elements, depth) + [None] * missing
        return _shaped(values, shape, dtypes.variant)

    def elements(self, messages: Iterable[VariantTensorDataProto], depth: int) -> list[Any]:
        return [self._variant(message, depth) for message in messages]

    def _variant(self, message: VariantTensorDataProto, depth: int) -> object:
        if not message.type_name:
            if message.metadata or message.tensors:
                raise InvalidArgumentError("a variant has a content but no type name")
            return None
        codec = codec_of_name(message.type_name, self._variants)
        types = tuple(tensor_proto_dtype(tensor) for tensor in message.tensors)
        pairs = zip(message.tensors, types, strict=True)
        tensors = tuple(self._tensor(tensor, dtype, depth + 1) for tensor, dtype in pairs)
        return codec.decode(VariantData(message.metadata, tensors, types))

    def _tensor(self, message: TensorProto, dtype: DType, depth: int) -> Value:
        if dtype is dtypes.variant:
            return self.variants(message, message.tensor_content, depth)
        if dtype is dtypes.resource:
            return handles_from_tensor_proto(message)
        if not message.tensor_content:
            missing = math.prod(tensor_proto_shape(message)) - count_stored_values(message)
            self._charge(missing * (dtype.size or _POINTER_BYTES))
        array = tensor_proto_to_numpy(message)
        return array if array.ndim or array.dtype.hasobject else array[()]

    def _charge(self, num_bytes: int) -> None:
        """Limit the memory that a short message makes the process allocate for omitted elements."""
        self._budget -= max(num_bytes, 0)
        if self._budget < 0:
            raise InvalidArgumentError(
                f"the message of a variant omits more than {_MAX_REPEATED_BYTES >> 20} MiB of "
                "repeated elements"
            )


def is_variant(value: Value) -> bool:
    """Return whether a value, of unknown element type, is a variant or an array of variants."""
    if isinstance(value, bytes | str | int | float | complex | list | tuple | ResourceHandle):
        return False
    dtype = dtypes.as_dtype(dtype_of_value(value))
    if dtype is not dtypes.string or not isinstance(value, np.ndarray) or not value.size:
        return dtype is dtypes.variant
    # An array that a kernel made of objects has NumPy's own type for them, which strings share.
    return not isinstance(value.flat[0], bytes | str | ResourceHandle)


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise InvalidArgumentError(
            f"variants are nested more than {_MAX_DEPTH} levels deep in a message"
        )


def _elements(value: Value) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of a tensor of objects, and the objects."""
    if isinstance(value, np.ndarray):
        return value.shape, value.ravel().tolist()
    return (), [value]


def _shaped(values: list[Any], shape: tuple[int, ...], dtype: DType) -> Value:
    if not shape:
        return values[0]
    array = np.empty(len(values), dtype.as_numpy_dtype)
    for index, value in enumerate(values):  # NumPy would unpack objects that have a length
        array[index] = value
    return array.reshape(shape)


def _tensor_message(dtype: DType, shape: tuple[int, ...]) -> TensorProto:
    message = proto.TensorProto(dtype=dtype.enum)  # type: ignore[arg-type]
    message.tensor_shape.SetInParent()
    for size in shape:
        message.tensor_shape.dim.add(size=size)
    return message


def _variant_message(data: bytes) -> VariantTensorDataProto:
    try:
        return proto.VariantTensorDataProto.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(
            f"{len(data)} bytes that represent a variant are not a VariantTensorDataProto"
        ) from error


def _handle_proto(handle: object) -> proto.ResourceHandleProto:
    if isinstance(handle, bytes):  # a serialized handle, as read from a TensorProto
        return proto.ResourceHandleProto.FromString(handle)
    if not isinstance(handle, ResourceHandle):
        raise InvalidArgumentError(
            f"a tensor of resource holds handles, not {type(handle).__name__}"
        )
    return proto.ResourceHandleProto(
        device=handle.device,
        container=handle.container,
        name=handle.name,
        maybe_type_name=handle.type_name,
    )
