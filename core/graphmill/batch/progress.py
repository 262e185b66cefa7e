"""`Progress`: the progress, speed and remaining time of a batch run."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    Attributes:
        rows: the rows that are done, with those that failed.
        failures: the rows that failed.
        fraction: the part of the files' bytes that was read; 0 to 1.
        seconds: since the start.
        resumed_rows: of `rows`, those that an earlier run had done.
    """

    rows: int = 0
    failures: int = 0
    fraction: float = 0.0
    seconds: float = 0.0
    resumed_rows: int = 0

    def __str__(self) -> str:
        rate = (self.rows - self.resumed_rows) / self.seconds if self.seconds > 0 else 0.0
        text = f"{self.rows} rows, {rate:.1f} rows/s, {self.fraction:.0%} of the input"
        if self.failures:
            text += f", {self.failures} failed"
        if self.fraction > 0 and self.rows > self.resumed_rows:
            text += f", about {_duration(self.seconds * (1 / self.fraction - 1))} left"
        return text


class Stopwatch:
    """Measure the seconds since its creation."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The seconds since its creation."""
        return time.perf_counter() - self._start


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
