"""`RunTimes`: whether a model is quick enough to run in the thread of the event loop."""

from __future__ import annotations

from typing import Final

_INLINE_SECONDS: Final = 0.001
"""Models whose runs take less run in the thread of the event loop."""
_UNKNOWN_SECONDS: Final = 0.005
"""The assumed time before the first run."""
SETTLED_RUNS: Final = 50
"""The number of runs with a shape after which nothing more is compiled for it."""
_GROWTH: Final = 1.02
"""The factor by which the assumed time grows with each run that takes longer."""
_LONG_SECONDS: Final = 0.01
"""A run in the event loop that takes longer counts as long: it delays other requests."""
LONG_RUNS: Final = 3
"""The number of consecutive long runs that prove a model slow. A single one shows only
that the system ran another process meanwhile."""
FORGIVING_RUNS: Final = 1000
"""The number of short runs in the event loop after which earlier long ones no longer count."""


class RunTimes:
    """The number of runs with a shape, and the duration of one.

    A run in another thread waits for the GIL while the event loop is busy, so that only its
    processor time says how long the model takes. Models that compute in threads of their own seem
    quick then; the first runs in the event loop show that they are not, and are tried again more
    and more rarely.

    Attributes:
        runs: the number of runs since the last ones that took too long.
        seconds: the assumed time of a run: the shortest of the recent ones, because other threads
            and processes only lengthen it.
    """

    __slots__ = ("_long_runs", "_needed", "_short_runs", "runs", "seconds")

    def __init__(self) -> None:
        self.runs = 0
        self.seconds = _UNKNOWN_SECONDS
        self._needed = SETTLED_RUNS
        self._long_runs = 0
        self._short_runs = 0

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
            self._add_long()
            return
        self._long_runs = 0
        self._short_runs += 1
        if self._short_runs == FORGIVING_RUNS:
            self._needed = SETTLED_RUNS

    def _add_long(self) -> None:
        """Count a long run in the event loop; after several, the model runs in threads again."""
        self._long_runs += 1
        self._short_runs = 0
        if self._long_runs == LONG_RUNS:
            self.runs, self.seconds, self._long_runs = 0, _UNKNOWN_SECONDS, 0
            self._needed *= 2
