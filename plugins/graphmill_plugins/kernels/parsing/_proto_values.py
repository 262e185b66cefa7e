"""Convert single values of protobuf fields to and from the wire format."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.descriptor import FieldDescriptor

from graphmill.errors import DataLossError
from graphmill.spi.protos import FIXED32, LENGTH, VARINT, read_varint, write_varint

if TYPE_CHECKING:
    from collections.abc import Callable

FIXED64: Final = 1
START_GROUP: Final = 3
END_GROUP: Final = 4
FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
"""The size in bytes of a value, by wire type."""

_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Encoding:
    """The encoding of values of one field type.

    Attributes:
        wire_type: the wire type of a value that is not packed.
        read: returns the value of a varint, or of the bytes of a payload.
        write: returns the bytes of a value; without its length, if it has one.
    """

    wire_type: int
    read: Callable[[Any], Any]
    write: Callable[[Any], bytes]

    @property
    def size(self) -> int:
        """The size of a value in bytes; 0 if it varies."""
        return FIXED_SIZES.get(self.wire_type, 0)

    def unpack(self, content: bytes, start: int, end: int) -> list[Any]:
        """Return the packed values in `content[start:end]`.

        Raises:
            DataLossError: the last value is incomplete.
        """
        if self.size:
            if (end - start) % self.size:
                raise DataLossError(
                    f"a packed field has {end - start} bytes, expected a multiple of {self.size}"
                )
            return [
                self.read(content[offset : offset + self.size])
                for offset in range(start, end, self.size)
            ]
        values = []
        while start < end:
            number, start = read_varint(content, start, end)
            values.append(self.read(number))
        return values


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _zigzag(value: int, bits: int) -> int:
    value = _signed(value, bits)
    return (value << 1 ^ value >> (bits - 1)) & ((1 << bits) - 1)


def _from_zigzag(number: int) -> int:
    return number >> 1 ^ -(number & 1)


def _varint(read: Callable[[int], Any], write: Callable[[int], int]) -> Encoding:
    return Encoding(VARINT, read, lambda value: write_varint(write(int(value))))


def _fixed(wire_type: int, kind: str, mask: int = 0, bits: int = 0) -> Encoding:
    packed = struct.Struct(f"<{kind}")

    def write(value: Any) -> bytes:
        if mask:
            value = int(value) & mask
            value = _signed(value, bits) if bits else value
        return packed.pack(value)

    return Encoding(wire_type, lambda content: packed.unpack(content)[0], write)


def _write_float(value: Any) -> bytes:
    """Encode a float32; values out of range become infinite, as in C++."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", float("inf") if value > 0 else float("-inf"))


_INT32: Final = _varint(lambda n: _signed(n, 32), lambda v: _signed(v, 32) & _MASK64)
_STRING: Final = Encoding(LENGTH, bytes, bytes)

ENCODINGS: Final = {
    FieldDescriptor.TYPE_DOUBLE: _fixed(FIXED64, "d"),
    FieldDescriptor.TYPE_FLOAT: Encoding(FIXED32, _fixed(FIXED32, "f").read, _write_float),
    FieldDescriptor.TYPE_INT64: _varint(lambda n: _signed(n, 64), lambda v: v & _MASK64),
    FieldDescriptor.TYPE_UINT64: _varint(int, int),
    FieldDescriptor.TYPE_INT32: _INT32,
    FieldDescriptor.TYPE_FIXED64: _fixed(FIXED64, "Q", _MASK64),
    FieldDescriptor.TYPE_FIXED32: _fixed(FIXED32, "I", _MASK32),
    FieldDescriptor.TYPE_BOOL: _varint(bool, bool),
    FieldDescriptor.TYPE_STRING: _STRING,
    FieldDescriptor.TYPE_GROUP: Encoding(START_GROUP, bytes, bytes),
    FieldDescriptor.TYPE_MESSAGE: _STRING,
    FieldDescriptor.TYPE_BYTES: _STRING,
    FieldDescriptor.TYPE_UINT32: _varint(lambda n: n & _MASK32, lambda v: v & _MASK32),
    FieldDescriptor.TYPE_ENUM: _INT32,
    FieldDescriptor.TYPE_SFIXED32: _fixed(FIXED32, "i", _MASK32, 32),
    FieldDescriptor.TYPE_SFIXED64: _fixed(FIXED64, "q", _MASK64, 64),
    FieldDescriptor.TYPE_SINT32: _varint(
        lambda n: _from_zigzag(n & _MASK32), lambda v: _zigzag(v, 32)
    ),
    FieldDescriptor.TYPE_SINT64: _varint(_from_zigzag, lambda v: _zigzag(v, 64)),
}
"""The encodings of all field types."""
