"""`CallTimes`: how long the calls of a cluster take in one tier, to compare it with another."""

from __future__ import annotations


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
            varies: whether that depends on the values. Then it is the mean, without the longest
                call, which something else may have held up; else the shortest.
        """
        if not varies or self.count < 2:
            return self._shortest
        return (self._total - self._longest) // (self.count - 1)
