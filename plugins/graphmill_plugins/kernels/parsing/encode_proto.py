"""EncodeProto: serialize messages from tensors with the values of their fields.

Semantics: tensorflow/core/kernels/encode_proto_op.cc.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.protos import LENGTH, write_varint
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._proto_fields import check_type, find_fields, find_message
from graphmill_plugins.kernels.parsing._proto_values import ENCODINGS, END_GROUP, START_GROUP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value
    from graphmill.spi.files import Broker


@kernel("EncodeProto", host=True, expensive=True, make=True, effects=("fs.read",), brokered=True)
def encode_proto(
    field_names: Sequence[str],
    message_type: str,
    descriptor_source: str,
    Tinput_types: Sequence[np.dtype[Any]],
    *,
    broker: Broker,
) -> Callable[[Value, list[Value]], Value]:
    """Return serialized messages, with the fields in the order of their numbers.

    Raises:
        InvalidArgumentError: there is no such message type or field, a tensor has another type than
            its field, or shapes and sizes do not fit.
    """
    message = find_message(descriptor_source, message_type, broker)
    fields = find_fields(message, field_names, extensions=False)
    if len(fields) != len(Tinput_types):
        raise InvalidArgumentError(
            f"field_names has {len(fields)} elements, but there are {len(Tinput_types)} inputs"
        )
    for field, dtype in zip(fields, Tinput_types, strict=True):
        check_type(field, dtype)
    return partial(_encode, fields)


def _encode(fields: Sequence[Any], sizes: Value, values: list[Value]) -> Value:
    prefix = _check(fields, sizes, values)
    count = math.prod(prefix)
    counts = sizes.reshape(count, len(fields))
    parts: list[list[bytes]] = [[] for _ in range(count)]
    for index in sorted(range(len(fields)), key=lambda index: fields[index].number):
        tensor = values[index]
        write = _writer(fields[index])
        rows = tensor.reshape(count, tensor.shape[-1])
        for part, row, size in zip(parts, rows, counts[:, index].tolist(), strict=True):
            if size:
                part.append(write(row[:size].tolist()))
    return string_array([b"".join(part) for part in parts], prefix)


def _check(fields: Sequence[Any], sizes: Value, values: list[Value]) -> tuple[int, ...]:
    """Return the shape of the messages after checking the shapes and sizes of all inputs."""
    prefix: tuple[int, ...] = values[0].shape[:-1]
    for field, tensor in zip(fields, values, strict=True):
        if tensor.ndim < 2 or tensor.shape[:-1] != prefix:
            raise InvalidArgumentError(
                f"the values of field {field.name} have shape {shape_text(tensor.shape)}; all "
                "fields must have the same rank of at least 2, and equal sizes except the last"
            )
    if sizes.shape != (*prefix, len(fields)):
        raise InvalidArgumentError(
            f"sizes has shape {shape_text(sizes.shape)}, expected "
            f"{shape_text((*prefix, len(fields)))}"
        )
    widths = np.array([tensor.shape[-1] for tensor in values])
    if (sizes < 0).any() or (sizes > widths).any():
        raise InvalidArgumentError(
            f"sizes must be at least 0, and at most the last size of the values ({widths.tolist()})"
        )
    return prefix


def _writer(field: Any) -> Callable[[list[Any]], bytes]:
    """Return the function that encodes the values of a field."""
    encoding = ENCODINGS[field.type]
    tag = write_varint(field.number << 3 | encoding.wire_type)
    if encoding.wire_type == START_GROUP:
        end = write_varint(field.number << 3 | END_GROUP)
        return lambda items: b"".join(tag + item + end for item in items)
    if encoding.wire_type == LENGTH:
        return lambda items: b"".join(tag + write_varint(len(item)) + item for item in items)
    if not field.is_packed:
        return lambda items: b"".join(tag + encoding.write(item) for item in items)
    packed_tag = write_varint(field.number << 3 | LENGTH)

    def write(items: list[Any]) -> bytes:
        content = b"".join(map(encoding.write, items))
        return packed_tag + write_varint(len(content)) + content

    return write
