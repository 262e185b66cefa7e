"""Why something cannot be compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InternalError
from graphmill.spi import NotTraceable

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.spi import Node

__all__ = ["KernelFault", "NeedsKnown", "NotTraceable", "ShapesChange", "WrongOutputsError"]


class NeedsKnown(NotTraceable):
    """A node needs the values of some inputs to be known while it is traced.

    Attributes:
        needed: the node and the positions of these inputs.
    """

    def __init__(self, text: str, node: Node, positions: Sequence[int]) -> None:
        super().__init__(text)
        self.needed = (node, tuple(positions))


class ShapesChange(NotTraceable):
    """The values of a loop change their shapes from iteration to iteration."""


class WrongOutputsError(InternalError):
    """A lowering gave other outputs than the kernel that it stands for: found in validation."""


class KernelFault(NotTraceable):
    """A kernel, lowering or check raised what is no error of a step, while it was traced.

    It is a fault of that code if the interpreter computes the same inputs.

    Attributes:
        culprit: the plugin and the kernel.
    """

    def __init__(self, text: str, culprit: Hashable) -> None:
        super().__init__(text)
        self.culprit = culprit
