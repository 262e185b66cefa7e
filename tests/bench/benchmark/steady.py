"""Time the steps of a case in its steady state."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Any

from benchmark.statistics import median, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
"""Clocks for steps, by name: elapsed time, or processor time of all threads of the process."""
MIN_STEPS, MAX_STEPS = 5, 100_000
WINDOW_SECONDS = 0.25
STEADY_WITHIN = 0.1
ALIKE = 3


def measure(
    step: Callable[..., Any],
    feeds: Sequence[Sequence[Any]],
    seconds: float,
    settle_seconds: float,
    clock: str = "wall",
) -> dict[str, Any]:
    """Wait until step times are steady, at most `settle_seconds`; then time steps for `seconds`.

    The steps are timed by one of `CLOCKS`; the seconds to wait are elapsed ones in any case.
    """
    begun = time.perf_counter()
    is_settled = settle(step, feeds, settle_seconds)
    settled_after = time.perf_counter() - begun
    gc.collect()
    times = timed_steps(step, feeds, seconds, CLOCKS[clock])
    return {
        "median_s": median(times),
        "p95_s": percentile(times, 95),
        "steps": len(times),
        "is_settled": is_settled,
        "settled_after_s": settled_after,
    }


def settle(step: Callable[..., Any], feeds: Sequence[Sequence[Any]], limit: float) -> bool:
    """Run steps until the medians of three windows agree; return whether they do.

    A runtime that compiles in the background is slow, then disturbed, then fast: two windows alike
    may both lie before the swap, so half of the limit is waited for in any case.
    """
    end = time.perf_counter() + limit
    earliest = end - limit / 2
    medians: list[float] = []
    while True:
        medians.append(median(timed_steps(step, feeds, min(WINDOW_SECONDS, limit / 4))))
        now = time.perf_counter()
        last = medians[-ALIKE:]
        agrees = len(last) == ALIKE and max(last) <= min(last) * (1 + STEADY_WITHIN)
        if now >= end or (agrees and now >= earliest):
            return agrees


def timed_steps(
    step: Callable[..., Any],
    feeds: Sequence[Sequence[Any]],
    seconds: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the times of consecutive steps for some seconds, and at least a few steps."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    count = len(feeds)
    while len(times) < MAX_STEPS:
        fed = feeds[len(times) % count]
        start = clock()
        step(*fed)
        times.append(clock() - start)
        if time.perf_counter() >= end and len(times) >= MIN_STEPS:
            break
    return times
