"""`CallTimes`: how long the calls of a cluster take in one tier, to compare it with another."""

from __future__ import annotations

from typing import Final

_MANY: Final = 8  # calls of which one may be left out: of few it could be all of one kind


class CallTimes:
    """How long calls took, in nanoseconds.

    Threads: a statistic without a lock; two threads that add at the same moment may lose one.

    Attributes:
        count: of how many calls.
    """

    __slots__ = ("_longest", "_shortest", "_total", "count")

    def __init__(self) -> None:
        self.count = 0
        self._shortest = 1 << 62
        self._longest = self._total = 0

    def add(self, nanoseconds: int) -> None:
        """Note a call."""
        self.count += 1
        self._total += nanoseconds
        if nanoseconds < self._shortest:
            self._shortest = nanoseconds
        if nanoseconds > self._longest:
            self._longest = nanoseconds

    def typical(self, *, varies: bool) -> int:
        """Return what a call takes: much more than any took if there was none.

        Args:
            varies: whether that depends on the values. Then it is the mean; of many without the
                longest call, which something else may have held up. Else it is the shortest.
        """
        if not varies or not self.count:
            return self._shortest
        if self.count < _MANY:
            return self._total // self.count
        return (self._total - self._longest) // (self.count - 1)
