"""Parse `DotDimensionNumbers`, which names the contracted dimensions of a product.

Semantics: xla/xla_data.proto: fields 1 and 2 list the contracted dimensions of the operands, 3 and
4 their batch dimensions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.xla._message import read_numbers

if TYPE_CHECKING:
    from collections.abc import Sequence


class DotDimensions(NamedTuple):
    """The contracted dimensions and the batch dimensions of two operands."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...]
    rhs_batch: tuple[int, ...]

    @classmethod
    def parse(cls, message: bytes) -> DotDimensions:
        """Read a serialized message.

        Raises:
            InvalidArgumentError: the message cannot be parsed.
        """
        return cls(*map(tuple, read_numbers(message, "DotDimensionNumbers", 4)))

    def check(self, lhs: Sequence[int], rhs: Sequence[int]) -> None:
        """Raise InvalidArgumentError unless the dimensions match the shapes of the operands."""
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
                f"operands of shapes {shape_text(lhs)} and {shape_text(rhs)} cannot be multiplied "
                f"over {self}"
            )

    @staticmethod
    def free(rank: int, *used_axes: Sequence[int]) -> tuple[int, ...]:
        """Return the dimensions that are neither contracted nor batched."""
        used = {axis for axes in used_axes for axis in axes}
        return tuple(axis for axis in range(rank) if axis not in used)
