"""`TimedQueue`: the ready queue of a traced run, which records when each node became ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi.executors import activity, now

if TYPE_CHECKING:
    from collections.abc import Iterable


class TimedQueue:
    """A wrapper of another queue that preserves its order.

    Args:
        queue: the queue; entries are stored in it together with the time.

    Attributes:
        scheduled: when the entry that was taken last became ready, by `now`.
    """

    __slots__ = ("_queue", "scheduled")

    activity = staticmethod(activity)  # here, as only traced runs need it

    def __init__(self, queue: Any) -> None:
        self._queue = queue
        self.scheduled = 0

    def append(self, entry: Any) -> None:
        """Add an entry, which is ready now."""
        self._queue.append((entry, now()))

    def extend(self, entries: Iterable[Any]) -> None:
        """Add several entries."""
        for entry in entries:
            self.append(entry)

    def pop(self) -> Any:
        """Remove and return the next entry."""
        entry, self.scheduled = self._queue.pop()
        return entry

    def clear(self) -> None:
        """Drop all entries."""
        self._queue.clear()

    def __len__(self) -> int:
        return len(self._queue)
