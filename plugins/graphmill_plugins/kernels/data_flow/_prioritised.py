"""`Prioritised`: an entry of a heap.

TensorFlow's heaps compare priorities alone. Python's `heapq` moves entries as libstdc++ does, so
entries of equal priority leave in TensorFlow's order.
"""

from __future__ import annotations

from typing import Any


class Prioritised(int):
    """A priority, with the element that has it."""

    element: Any

    @classmethod
    def of(cls, priority: int, element: Any) -> Prioritised:
        """Return the entry of an element."""
        entry = cls(priority)
        entry.element = element
        return entry
