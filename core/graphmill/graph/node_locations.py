"""`NodeLocations`: where in the user's program each node was made.

As in TensorFlow 1, whose errors said "Defined at". A location is the innermost frame outside of
graphmill; `GRAPHMILL_NODE_LOCATIONS=0` records none.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from traceback import StackSummary
    from types import CodeType

    from graphmill.graph.node import Node

VARIABLE: Final = "GRAPHMILL_NODE_LOCATIONS"
_OWN: Final = ("graphmill.", "graphmill_plugins.")


class NodeLocations:
    """The locations of the nodes of one graph.

    Threads: those of the graph, which is built in one thread at a time.
    """

    __slots__ = ("_found", "_is_on")

    def __init__(self) -> None:
        self._is_on = os.environ.get(VARIABLE) != "0"
        self._found: dict[int, tuple[CodeType, int]] = {}

    def record(self, node: Node) -> None:
        """Record the line that is making a node now."""
        if not self._is_on:
            return
        frame = sys._getframe(2)  # noqa: SLF001 - half the cost of inspect.currentframe
        while frame.f_globals.get("__name__", "").startswith(_OWN):
            if frame.f_back is None:
                return
            frame = frame.f_back
        self._found[node.id] = frame.f_code, frame.f_lineno

    def frames(self, node: Node) -> StackSummary:
        """Return the line as the only frame of a stack; an empty stack if there is none."""
        from traceback import FrameSummary, StackSummary  # few programs ask for it

        location = self._found.get(node.id)
        if location is None:
            return StackSummary()
        code, line = location
        return StackSummary.from_list([FrameSummary(code.co_filename, line, code.co_qualname)])

    def of(self, node: Node) -> str | None:
        """Return file, line and function as text; None if the node was not made by a program."""
        location = self._found.get(node.id)
        if location is None:
            return None
        code, line = location
        return f"{code.co_filename}:{line} in {code.co_qualname}"
