"""`RunTimes`: whether a model is quick enough to run in the thread of the event loop."""

from __future__ import annotations

from typing import Final

_INLINE_SECONDS: Final = 0.001
"""Models that take less run in the thread of the event loop."""
_UNKNOWN_SECONDS: Final = 0.005
"""The assumed time before the first run."""
SETTLED_RUNS: Final = 50
"""After how many runs with a shape nothing is compiled for it any more."""
_GROWTH: Final = 1.02
"""By which factor the assumed time grows with each run that takes longer."""
_LONG_SECONDS: Final = 0.01
"""A run in the event loop that took longer delayed other requests."""


class RunTimes:
    """The number of runs with a shape, and how long one takes.

    A run in another thread waits for the GIL while the event loop is busy, so that only its
    processor time says how long the model takes. Models that compute in threads of their own seem
    quick then; the first run in the event loop shows that they are not, and is tried again more and
    more rarely.

    Attributes:
        runs: how many there were since the last one that was too long.
        seconds: the assumed time of a run: the shortest of late, because other threads and
            processes only lengthen it.
    """

    __slots__ = ("_needed", "runs", "seconds")

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = _UNKNOWN_SECONDS
        self._needed = SETTLED_RUNS

    @property
    def is_quick(self) -> bool:
        """Whether a run does not delay the event loop."""
        return self.seconds < _INLINE_SECONDS and self.runs >= self._needed

    def add(self, seconds: float) -> None:
        """Count a run in another thread by its processor time."""
        self.runs += 1
        self.seconds = min(seconds, self.seconds * _GROWTH)

    def add_inline(self, seconds: float) -> None:
        """Count a run in the event loop."""
        self.add(seconds)
        if seconds > _LONG_SECONDS:
            self.runs, self.seconds = 0, _UNKNOWN_SECONDS
            self._needed *= 2
