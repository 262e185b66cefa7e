"""`CallTimes`: call durations of a cluster in one tier, to compare tiers."""

from __future__ import annotations

from typing import Final

_MIN_CALLS: Final = 8  # calls from which on the longest is an outlier; below, it may be typical


class CallTimes:
    """Durations of calls in nanoseconds.

    Threads: a statistic without a lock; two threads that add at the same moment may lose one.

    Attributes:
        count: number of recorded calls.
    """

    __slots__ = ("_longest", "_shortest", "_total", "count")

    def __init__(self) -> None:
        self.count = 0
        self._shortest = 1 << 62
        self._longest = self._total = 0

    def add(self, nanoseconds: int) -> None:
        """Record a call."""
        self.count += 1
        self._total += nanoseconds
        if nanoseconds < self._shortest:
            self._shortest = nanoseconds
        if nanoseconds > self._longest:
            self._longest = nanoseconds

    def typical(self, *, varies: bool) -> int:
        """Return a typical duration; a very large one if there were no calls.

        Args:
            varies: whether durations depend on the values. If so, return the mean, without the
                longest of many calls, which other work may have delayed; else the shortest.
        """
        if not varies or not self.count:
            return self._shortest
        if self.count < _MIN_CALLS:
            return self._total // self.count
        return (self._total - self._longest) // (self.count - 1)
