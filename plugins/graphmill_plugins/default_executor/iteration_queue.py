"""`IterationQueue`: a ready queue that finishes one iteration before it starts the next one.

A debugger shows the iterations of a loop one after the other. But several may be in flight, so
their nodes become ready in any order.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    Position = tuple[tuple[str, int], ...]
    """The frames around an iteration, from the outside in, each with the iteration's number."""


class IterationQueue:
    """The ready nodes of a run, ordered by iteration; in an iteration, the newest one first.

    So a node of the root frame comes before those of loops, and the consumer of a value right after
    its producer.
    """

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[Position, int, Any]] = []
        self._sequence = itertools.count()

    def append(self, entry: Any) -> None:
        """Add a node with its iteration and whether it is dead."""
        heapq.heappush(self._heap, (_position(entry[1]), -next(self._sequence), entry))

    def extend(self, entries: Iterable[Any]) -> None:
        """Add several nodes."""
        for entry in entries:
            self.append(entry)

    def pop(self) -> Any:
        """Remove and return the next node."""
        return heapq.heappop(self._heap)[2]

    def clear(self) -> None:
        """Drop all nodes."""
        self._heap.clear()

    def next(self) -> Any:
        """Return the next node without removing it; None if there is none."""
        return self._heap[0][2] if self._heap else None

    def entries(self) -> list[Any]:
        """Return all nodes, the next one first."""
        return [entry for *_, entry in sorted(self._heap)]

    def __len__(self) -> int:
        return len(self._heap)


def _position(iteration: Any) -> Position:
    frame = getattr(iteration, "frame", None)  # None without control flow
    position: list[tuple[str, int]] = []
    while frame is not None and frame.parent is not None:
        position.append((frame.view.name, iteration.number))
        iteration = frame.parent
        frame = iteration.frame
    return tuple(reversed(position))
