"""Errors with the reason why a cluster cannot be compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InternalError
from graphmill.spi import NotTraceable

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.spi import Node

__all__ = ["KernelFault", "NeedsStatic", "NotTraceable", "ShapesChange", "WrongOutputsError"]


class NeedsStatic(NotTraceable):
    """A node needs static values for some inputs.

    Attributes:
        needed: the node and the positions of these inputs.
    """

    def __init__(self, text: str, node: Node, positions: Sequence[int]) -> None:
        super().__init__(text)
        self.needed = (node, tuple(positions))


class ShapesChange(NotTraceable):
    """The loop variables of a loop change their shapes between iterations."""


class WrongOutputsError(InternalError):
    """A lowering returned other outputs than its kernel would (validation mode only)."""


class KernelFault(NotTraceable):
    """A kernel, lowering or check raised an unexpected error while it was traced.

    It is a fault of that code only if the interpreter can compute the same inputs.

    Attributes:
        culprit: the plugin and the kernel.
    """

    def __init__(self, text: str, culprit: Hashable) -> None:
        super().__init__(text)
        self.culprit = culprit
