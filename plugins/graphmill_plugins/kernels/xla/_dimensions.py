"""Reading `DotDimensionNumbers`, the message that says which dimensions a product contracts.

Semantics: xla/xla_data.proto: fields 1 and 2 name the contracted dimensions of the operands, 3 and
4 those that are batched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_VARINT, _PACKED = 0, 2


class DotDimensions(NamedTuple):
    """Which dimensions of two operands are contracted, and which are batched."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]

    @classmethod
    def parse(cls, message: bytes) -> DotDimensions:
        """Read a serialized message.

        Raises:
            InvalidArgumentError: it is none.
        """
        fields: dict[int, list[int]] = {1: [], 2: [], 3: [], 4: []}
        reader = _Reader(message)
        while not reader.is_at_end:
            tag = reader.varint()
            if tag >> 3 not in fields:
                raise InvalidArgumentError("dimension_numbers is no DotDimensionNumbers message")
            fields[tag >> 3] += reader.numbers(tag & 7)
        return cls(*(tuple(numbers) for numbers in fields.values()))

    def check(self, lhs: Sequence[int], rhs: Sequence[int]) -> None:
        """Raise InvalidArgumentError unless operands of two shapes have such dimensions."""
        pairs = [
            *zip(self.lhs_contracting, self.rhs_contracting, strict=False),
            *zip(self.lhs_batch, self.rhs_batch, strict=False),
        ]
        counts = len(self.lhs_contracting) + len(self.lhs_batch)
        is_paired = (
            len(self.lhs_contracting) == len(self.rhs_contracting)
            and len(self.lhs_batch) == len(self.rhs_batch)
            and len({a for a, _ in pairs}) == len({b for _, b in pairs}) == counts
        )
        if not is_paired or any(
            a >= len(lhs) or b >= len(rhs) or lhs[a] != rhs[b] for a, b in pairs
        ):
            raise InvalidArgumentError(
                f"operands of shapes {shape_text(lhs)} and {shape_text(rhs)} have no product over "
                f"{self}"
            )

    @staticmethod
    def free(rank: int, *taken: Sequence[int]) -> tuple[int, ...]:
        """Return the dimensions that are neither contracted nor batched."""
        used = {axis for axes in taken for axis in axes}
        return tuple(axis for axis in range(rank) if axis not in used)


class _Reader:
    """Reads numbers of a message."""

    def __init__(self, message: bytes) -> None:
        self._message, self._place = message, 0

    @property
    def is_at_end(self) -> bool:
        return self._place >= len(self._message)

    def varint(self) -> int:
        value = shift = 0
        while True:
            if self.is_at_end or shift > 63:
                raise InvalidArgumentError("dimension_numbers is cut off")
            byte = self._message[self._place]
            self._place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def numbers(self, wire_type: int) -> Iterator[int]:
        """Yield the numbers of a repeated field, packed or not."""
        if wire_type == _VARINT:
            yield self.varint()
        elif wire_type == _PACKED:
            length = self.varint()
            end = self._place + length
            if end > len(self._message):
                raise InvalidArgumentError("dimension_numbers is cut off")
            while self._place < end:
                yield self.varint()
        else:
            raise InvalidArgumentError("dimension_numbers is no DotDimensionNumbers message")
