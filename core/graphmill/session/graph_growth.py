"""`GrowthWatch`: warn about a program that adds nodes to its graph before each step.

Each new node needs new executors, and none is ever removed: such a program gets slower and larger
with each step.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph

GROWTHS: Final = 100
"""The number of consecutive steps before each of which the same line must have added nodes."""


class GrowthWatch:
    """Counts how often one line of a program has extended the graph between steps.

    Threads: the lock of the session's graph guards it.
    """

    __slots__ = ("_count", "_has_warned", "_location", "_num_nodes", "_num_steps")

    def __init__(self) -> None:
        self._location: str | None = None
        self._num_steps = 0
        self._num_nodes = 0
        self._count = 0
        self._has_warned = False

    def note(self, graph: Graph, name: str, num_nodes: int, num_steps: int) -> None:
        """Record that a graph has grown; warn once if the same line extends it repeatedly.

        Args:
            graph: the graph, which knows where its nodes were made.
            name: the last of its new nodes.
            num_nodes: how many nodes it has now.
            num_steps: how many steps the session has run.
        """
        location = graph.location_of(name)
        is_next = num_steps == self._num_steps + 1 and location == self._location
        if not is_next:
            self._count, self._num_nodes = 0, num_nodes
        self._location, self._num_steps = location, num_steps
        self._count += 1
        if self._count > GROWTHS and location is not None and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the graph grows before each step: {location} has added "
                f"{num_nodes - self._num_nodes} nodes before the last {GROWTHS} steps, such as "
                f"{name!r}. Build the graph once, before the loop, and feed what changes; steps "
                "get slower otherwise, and memory is never released",
                RuntimeWarning,
                stacklevel=5,
            )
