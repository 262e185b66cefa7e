"""Parse the integers of small protobuf messages in op attrs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

_VARINT, _PACKED = 0, 2


def read_numbers(message: bytes, name: str, fields: int) -> list[list[int]]:
    """Return the integers of the fields 1 to `fields` of a message, a list for each field.

    Args:
        message: the serialized message.
        name: its type, for errors.
        fields: its largest field number.

    Raises:
        InvalidArgumentError: the message cannot be parsed.
    """
    numbers: list[list[int]] = [[] for _ in range(fields)]
    reader = _Reader(message, name)
    while not reader.is_at_end:
        tag = reader.varint()
        if not 1 <= tag >> 3 <= fields:
            raise reader.is_no_message()
        numbers[(tag >> 3) - 1] += reader.numbers(tag & 7)
    return numbers


class _Reader:
    """Read integers of a message."""

    def __init__(self, message: bytes, name: str) -> None:
        self._message, self._name, self._position = message, name, 0

    @property
    def is_at_end(self) -> bool:
        return self._position >= len(self._message)

    def is_no_message(self) -> InvalidArgumentError:
        return InvalidArgumentError(f"dimension_numbers is not a {self._name} message")

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.is_at_end or shift > 63:
                raise InvalidArgumentError("dimension_numbers is truncated")
            byte = self._message[self._position]
            self._position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def numbers(self, wire_type: int) -> Iterator[int]:
        """Yield the integers of a repeated field, packed or not."""
        if wire_type == _VARINT:
            yield self.varint()
        elif wire_type == _PACKED:
            length = self.varint()
            end = self._position + length
            if end > len(self._message):
                raise InvalidArgumentError("dimension_numbers is truncated")
            while self._position < end:
                yield self.varint()
        else:
            raise self.is_no_message()
