"""Read the protobuf wire format without building messages: varints, fields, field headers.

The generated classes parse and copy the whole message. If only a few bytes of a large message
matter (a model's large constants, the kind of an unknown file), these functions read the encoding
directly. They work on any buffer of bytes and do not copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import DataLossError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    Buffer: TypeAlias = bytes | memoryview

VARINT = 0
"""Wire type of variable-length numbers."""
FIXED64 = 1
"""Wire type of eight bytes."""
LENGTH = 2
"""Wire type of a length followed by as many bytes: strings, messages, packed numbers."""
FIXED32 = 5
"""Wire type of four bytes."""

_FIXED_SIZES = {FIXED64: 8, FIXED32: 4}
_ONE_BYTE = tuple(bytes([value]) for value in range(0x80))
_MAX_VARINT_BYTES = 10
_MAX_UINT64 = (1 << 64) - 1
_MAX_FIELD_NUMBER = (1 << 29) - 1


class Field(NamedTuple):
    """One field of a message: its position, and its value if that is a varint.

    Attributes:
        number: the field's number.
        wire_type: VARINT, FIXED64, LENGTH or FIXED32.
        value: the value of a varint field, else 0.
        header: offset of the field's tag.
        start: offset of the payload's first byte.
        end: offset after the payload's last byte.
    """

    number: int
    wire_type: int
    value: int
    header: int
    start: int
    end: int


def read_varint(buffer: Buffer, position: int, end: int) -> tuple[int, int]:
    """Return the varint at `position` and the offset after it.

    Raises:
        DataLossError: it extends past `end`, or is longer than 64 bits.
    """
    if position < end and buffer[position] < 0x80:
        return buffer[position], position + 1
    value = shift = 0
    for offset in range(position, min(end, position + _MAX_VARINT_BYTES)):
        byte = buffer[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Bits past the 64th are dropped, as protobuf's own parsers do.
            return value & _MAX_UINT64, offset + 1
        shift += 7
    if end - position < _MAX_VARINT_BYTES:
        raise DataLossError(f"truncated number at byte {position}")
    raise DataLossError(f"number of more than 64 bits at byte {position}")


def write_varint(value: int) -> bytes:
    """Return the varint encoding of `value` (0 <= value < 2**64)."""
    if value <= 0x7F:
        return _ONE_BYTE[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def iterate_fields(buffer: Buffer, start: int, end: int) -> Iterator[Field]:
    """Yield the fields of the message that occupies `buffer[start:end]`, in order.

    Raises:
        DataLossError: the bytes are not a valid message, or have groups (an encoding that
            TensorFlow's messages do not use).
    """
    position = start
    while position < end:
        header = position
        tag = buffer[position]  # fast path: a tag of one byte, for field numbers up to 15
        if tag < 0x80:
            position += 1
        else:
            tag, position = read_varint(buffer, position, end)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number <= _MAX_FIELD_NUMBER:
            raise DataLossError(f"invalid field number {number} at byte {header}")
        value = 0
        if wire_type == LENGTH:
            size, payload = read_varint(buffer, position, end)
            position = payload + size
        elif wire_type == VARINT:
            payload = position
            value, position = read_varint(buffer, position, end)
        elif wire_type in _FIXED_SIZES:
            payload = position
            position += _FIXED_SIZES[wire_type]
        else:
            raise DataLossError(f"invalid wire type {wire_type} at byte {header}")
        if position > end:
            raise DataLossError(
                f"field {number} at byte {header} needs {position - payload} bytes, "
                f"but {end - payload} are left"
            )
        yield Field(number, wire_type, value, header, payload, position)


def length_delimited(number: int, size: int) -> bytes:
    """Return the header of field `number` with a payload of `size` bytes."""
    return write_varint(number << 3 | LENGTH) + write_varint(size)
