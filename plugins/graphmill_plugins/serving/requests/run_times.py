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


class RunTimes:
    """The number of runs with a shape, and how long one takes.

    Other threads and processes only lengthen a run, so the shortest recent run is the model's own.

    Attributes:
        runs: how many there were.
        seconds: the assumed time of a run.
    """

    __slots__ = ("runs", "seconds")

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = _UNKNOWN_SECONDS

    @property
    def is_quick(self) -> bool:
        """Whether a run does not delay the event loop."""
        return self.seconds < _INLINE_SECONDS and self.runs >= SETTLED_RUNS

    def add(self, seconds: float) -> None:
        """Count a run."""
        self.runs += 1
        self.seconds = min(seconds, self.seconds * _GROWTH)
