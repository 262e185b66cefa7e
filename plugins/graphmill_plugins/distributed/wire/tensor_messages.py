"""Messages that carry tensors, read and written without copies of large ones.

protobuf's classes copy every byte of a message, and reading an array from them copies it again. So
large tensor contents are extracted from a message's bytes before protobuf parses them. To write a
message, protobuf serializes its other fields, and the result is joined once with the memory of its
tensors.
"""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.spi import RendezvousKey
from graphmill.spi.protos import LENGTH, length_delimited, proto, write_varint
from graphmill_plugins._server.status import in_context
from graphmill_plugins._server.tensor_contents import TENSOR_FIELD, TensorField, take_contents
from graphmill_plugins._server.tensors import (
    COPIED_BYTES,
    MAX_MESSAGE_BYTES,
    content_header,
    decode_tensor,
    encode_tensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.dtypes import DType
    from graphmill.spi import Value, VariantRegistry
    from graphmill_plugins._server.tensors import Part

M = TypeVar("M", bound=Message)

LARGE_BYTES: Final = 16 * 1024
"""The minimum size in bytes of a `tensor_content` that is not copied."""

_NAME_TAG: Final = bytes([1 << 3 | LENGTH])  # NamedTensorProto.name


class NamedTensor(NamedTuple):
    """A tensor of a message.

    Attributes:
        name: the name of the tensor, or its rendezvous key; "" where the message uses positions.
        value: a NumPy array or scalar, a resource handle, or a variant.
        dtype: its element type, where the value's own is ambiguous (quantized types).
    """

    name: str
    value: Value
    dtype: DType | None = None


class TensorMessage(Generic[M]):
    """A message type with one field of tensors.

    Attributes:
        message_class: the message.
        field: the field with its tensors.
    """

    def __init__(self, message_class: type[M], field: str) -> None:
        descriptor = message_class.DESCRIPTOR.fields_by_name[field]
        named = descriptor.message_type is proto.NamedTensorProto.DESCRIPTOR
        self.message_class = message_class
        self.field = TensorField(descriptor.number, descriptor.is_repeated, named)
        self._name = field

    def decode(
        self, data: bytes, variants: VariantRegistry, large: int = LARGE_BYTES
    ) -> tuple[M, list[NamedTensor]]:
        """Return a message and its tensors, in order.

        Large arrays are views of `data`, and not in the message itself.

        Args:
            data: the message's bytes.
            variants: the codecs of variants.
            large: the size in bytes from which a content is not copied.

        Raises:
            InvalidArgumentError: the message or a tensor is malformed.
            UnimplementedError: a tensor is a variant whose type has no codec.
            ResourceExhaustedError: there is not enough memory for a tensor.
        """
        contents: dict[int, memoryview] = {}
        if len(data) >= large:
            data, contents = take_contents(data, self.field, large)
        message = parse_message(self.message_class, data)
        entries = self._entries(message)
        read = _named_tensor if self.field.is_named else _tensor
        return message, [read(one, variants, contents.get(i)) for i, one in enumerate(entries)]

    def encode(
        self, message: M, tensors: Iterable[NamedTensor], variants: VariantRegistry
    ) -> bytes:
        """Return the bytes of a message with these tensors added.

        Raises:
            InvalidArgumentError: a tensor or the whole is too large, or a value is not a tensor.
            UnimplementedError: a tensor is a variant whose type has no codec.
        """
        number = self.field.number
        is_named = self.field.is_named
        parts: list[Part] = [message.SerializeToString()]
        total = len(parts[0])
        for tensor in tensors:
            small = _small_field(number, is_named, tensor)
            if small is not None:
                parts.append(small)
                total += len(small)
                continue
            try:
                body, size = encode_tensor(tensor.value, variants, tensor.dtype)
            except OpError as error:
                raise _of_tensor(error, tensor.name) from error
            header = _name_header(tensor.name, size) if is_named else b""
            header = length_delimited(number, len(header) + size) + header
            parts.append(header)
            parts += body
            total += len(header) + size
        if total > MAX_MESSAGE_BYTES:
            raise InvalidArgumentError(
                f"a {self.message_class.DESCRIPTOR.name} of {total} bytes is too large (2 GiB at "
                "most); send its tensors in several steps"
            )
        return b"".join(parts)

    def _entries(self, message: M) -> Iterable[Any]:
        if self.field.is_repeated:
            entries: Iterable[Any] = getattr(message, self._name)[:]
            return entries
        return [getattr(message, self._name)] if message.HasField(self._name) else []


def parse_message(message_class: type[M], data: bytes) -> M:
    """Return a message from its bytes.

    Raises:
        InvalidArgumentError: they are none.
    """
    try:
        return message_class.FromString(data)
    except DecodeError as error:
        raise InvalidArgumentError(
            f"{len(data)} bytes are not a valid {message_class.DESCRIPTOR.name}: {error}"
        ) from error


def _of_tensor(error: OpError, name: str) -> OpError:
    """Return an error with the name of its tensor; a rendezvous key includes it."""
    with contextlib.suppress(InvalidArgumentError):  # it is the name itself
        name = RendezvousKey.parse(name).edge_name
    return in_context(error, f"tensor {name}")


def _small_field(number: int, is_named: bool, tensor: NamedTensor) -> bytes | None:
    """Return the field of a small numeric array, whose header is cached."""
    value = tensor.value
    if tensor.dtype is not None or not isinstance(value, np.ndarray | np.generic):
        return None
    if not 0 < value.nbytes <= COPIED_BYTES or value.dtype.kind not in "fiubc":
        return None
    return _small_header(number, is_named, tensor.name, value.dtype, value.shape) + value.tobytes()


@lru_cache(maxsize=1024)
def _small_header(
    number: int, is_named: bool, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> bytes:
    """Return the header of an array in a field of a message."""
    header = content_header(dtype, shape)
    size = len(header) + math.prod(shape) * dtype.itemsize
    if is_named:
        header = _name_header(name, size) + header
        size = len(header) + math.prod(shape) * dtype.itemsize
    return length_delimited(number, size) + header


def _name_header(name: str, size: int) -> bytes:
    """Return the bytes before the tensor in a NamedTensorProto."""
    text = name.encode()
    return b"".join(
        (_NAME_TAG, write_varint(len(text)), text, length_delimited(TENSOR_FIELD, size))
    )


def _tensor(entry: Any, variants: VariantRegistry, content: memoryview | None) -> NamedTensor:
    return NamedTensor("", decode_tensor(entry, variants, content))


def _named_tensor(entry: Any, variants: VariantRegistry, content: memoryview | None) -> NamedTensor:
    return NamedTensor(entry.name, decode_tensor(entry.tensor, variants, content))


RUN_STEP_REQUEST: Final = TensorMessage(proto.RunStepRequest, "feed")
RUN_STEP_RESPONSE: Final = TensorMessage(proto.RunStepResponse, "tensor")
RUN_CALLABLE_REQUEST: Final = TensorMessage(proto.RunCallableRequest, "feed")
RUN_CALLABLE_RESPONSE: Final = TensorMessage(proto.RunCallableResponse, "fetch")
RUN_GRAPH_REQUEST: Final = TensorMessage(proto.RunGraphRequest, "send")
RUN_GRAPH_RESPONSE: Final = TensorMessage(proto.RunGraphResponse, "recv")
RECV_TENSOR_RESPONSE: Final = TensorMessage(proto.RecvTensorResponse, "tensor")
