"""DecodeProtoV2: tensors of the fields of serialized messages.

Semantics: tensorflow/core/kernels/decode_proto_op.cc. Messages are read from the wire format, so
the bytes of nested messages do not change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from google.protobuf import message_factory, text_format
from google.protobuf.message import DecodeError, EncodeError

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill.spi.protos import FIXED32, LENGTH, VARINT, read_varint
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.parsing._proto_fields import check_type, find_fields, find_message
from graphmill_plugins.kernels.parsing._proto_values import (
    ENCODINGS,
    END_GROUP,
    FIXED_SIZES,
    START_GROUP,
    Encoding,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill.spi.files import Broker

_MAX_GROUP_DEPTH: Final = 100  # groups; protobuf's own limit
_UNCHECKED: Final = 16  # messages between two checks whether the step was cancelled


@dataclass(frozen=True, slots=True)
class _Output:
    """One requested field: its position in a message, and its output tensor."""

    number: int
    encoding: Encoding
    is_repeated: bool
    dtype: np.dtype[Any]
    default: Any


@kernel("DecodeProtoV2", host=True, expensive=True, make=True, effects=("fs.read",), brokered=True)
def decode_proto_v2(
    message_type: str,
    field_names: Sequence[str],
    output_types: Sequence[np.dtype[Any]],
    descriptor_source: str,
    message_format: str,
    sanitize: bool,
    *,
    broker: Broker,
) -> Callable[[Value], tuple[Value, list[Value]]]:
    """Return the number of values of each field, and a tensor of the values.

    A field without a value has its default.

    Raises:
        DataLossError: a message cannot be parsed.
        InvalidArgumentError: there is no such message type or field, a field has another type, or
            there is no message.
    """
    if len(field_names) != len(output_types):
        raise InvalidArgumentError(
            f"field_names has {len(field_names)} elements, but output_types {len(output_types)}"
        )
    if message_format not in ("binary", "text"):
        raise InvalidArgumentError(
            f"message_format must be 'binary' or 'text', got {message_format!r}"
        )
    message = find_message(descriptor_source, message_type, broker)
    fields = find_fields(message, field_names, extensions=True)
    for field, dtype in zip(fields, output_types, strict=True):
        check_type(field, dtype)
    outputs = [_output(field, dtype) for field, dtype in zip(fields, output_types, strict=True)]
    normalize = None
    if sanitize or message_format == "text":
        normalize = _normalizer(message, is_text=message_format == "text")
    return lambda messages: _decode(messages, outputs, normalize)


def _output(field: Any, dtype: np.dtype[Any]) -> _Output:
    default: Any = b""
    if field.message_type is None and not field.is_repeated:
        default = field.default_value
    elif dtypes.as_dtype(dtype) is not dtypes.string:
        default = 0
    if isinstance(default, str):
        default = default.encode()
    return _Output(field.number, ENCODINGS[field.type], field.is_repeated, dtype, default)


def _normalizer(message: Any, *, is_text: bool) -> Callable[[bytes], bytes]:
    """Return a function that parses a message with protobuf, and serializes it again."""
    kind = message_factory.GetMessageClass(message)
    what = "text" if is_text else "binary"

    def normalize(content: bytes) -> bytes:
        try:
            if is_text:
                parsed = text_format.Parse(content, kind())
            else:
                parsed = kind.FromString(content)
            return parsed.SerializeToString()
        except (DecodeError, EncodeError, text_format.ParseError, UnicodeDecodeError) as error:
            raise DataLossError(
                f"a {what} message of type {message.full_name} cannot be parsed: {error}"
            ) from error

    return normalize


def _decode(
    messages: Value, outputs: Sequence[_Output], normalize: Callable[[bytes], bytes] | None
) -> tuple[Value, list[Value]]:
    contents = np.asarray(messages, object).reshape(-1).tolist()
    if not contents:
        raise InvalidArgumentError("there is no message to decode: the input is empty")
    if normalize is not None:
        contents = [normalize(content) for content in cancellable(contents, _UNCHECKED)]
    by_number = {output.number: output for output in outputs}
    parsed = [_parse(content, by_number) for content in cancellable(contents, _UNCHECKED)]
    shape = np.shape(messages)
    sizes = np.array(
        [[len(fields[output.number]) for output in outputs] for fields in parsed], np.int32
    ).reshape(*shape, len(outputs))
    tensors = []
    for output in outputs:
        columns = [fields[output.number] for fields in parsed]
        width = max(1, *map(len, columns))
        check_size((len(columns), width), "a decoded field", itemsize=output.dtype.itemsize)
        tensor = np.full((math.prod(shape), width), output.default, output.dtype)
        for row, values in cancellable(zip(tensor, columns, strict=True)):
            row[: len(values)] = values
        tensors.append(tensor.reshape(*shape, width))
    return sizes, tensors


def _parse(content: bytes, by_number: dict[int, _Output]) -> dict[int, list[Any]]:
    """Return the values of the requested fields of one message."""
    fields: dict[int, list[Any]] = {number: [] for number in by_number}
    position, end = 0, len(content)
    for _ in cancellable(repeat(None)):
        if position >= end:
            break
        header = position
        number, wire_type, position = _read_tag(content, position)
        if wire_type == END_GROUP:
            raise DataLossError(f"a group ends at byte {header}, but no group is open")
        start, position, value = _read_payload(content, number, wire_type, position)
        output = by_number.get(number)
        if output is None:
            continue
        encoding = output.encoding
        if wire_type == LENGTH != encoding.wire_type and encoding.wire_type != START_GROUP:
            values = encoding.unpack(content, start, position)
        elif wire_type != encoding.wire_type:
            continue  # protobuf skips a field with another wire type
        elif wire_type == VARINT:
            values = [encoding.read(value)]
        else:  # a group includes its tags
            first = header if wire_type == START_GROUP else start
            values = [encoding.read(content[first:position])]
        if output.is_repeated:
            fields[number] += values
        elif values:
            fields[number] = values[-1:]
    return fields


def _read_tag(content: bytes, position: int) -> tuple[int, int, int]:
    """Return field number and wire type of a tag, and the offset after it."""
    tag, after = read_varint(content, position, len(content))
    if not 0 < tag >> 3 < 1 << 29 or tag & 7 > FIXED32:
        raise DataLossError(f"invalid tag {tag} at byte {position}")
    return tag >> 3, tag & 7, after


def _read_payload(
    content: bytes, number: int, wire_type: int, position: int, depth: int = 0
) -> tuple[int, int, int]:
    """Return start and end of the payload of a field, and its value if it is a varint."""
    end, value = len(content), 0
    start = position
    if wire_type == VARINT:
        value, position = read_varint(content, position, end)
    elif wire_type == START_GROUP:
        position = _end_of_group(content, number, position, depth + 1)
    elif wire_type == LENGTH:
        size, start = read_varint(content, position, end)
        position = start + size
    else:
        position += FIXED_SIZES[wire_type]
    if position > end:
        raise DataLossError(f"field {number} is {position - end} bytes too short")
    return start, position, value


def _end_of_group(content: bytes, group: int, position: int, depth: int) -> int:
    """Return the offset after the end tag of a group."""
    if depth > _MAX_GROUP_DEPTH:
        raise DataLossError(f"groups are nested more than {_MAX_GROUP_DEPTH} deep")
    while True:
        number, wire_type, position = _read_tag(content, position)
        if wire_type == END_GROUP:
            if number != group:
                raise DataLossError(f"group {group} ends with the tag of group {number}")
            return position
        _, position, _ = _read_payload(content, number, wire_type, position, depth)
