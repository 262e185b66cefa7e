"""Medians, percentiles, ratios, and steady step times."""

from __future__ import annotations

import itertools
import math
import time

import pytest
from benchmark.statistics import geometric_mean, median, median_ratio, percentile
from benchmark.steady import CLOCKS, MIN_STEPS, measure, settle, timed_steps


def test_odd_and_even_counts_have_a_median() -> None:
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5


@pytest.mark.parametrize(("percent", "expected"), [(95, 95), (100, 100), (1, 1), (0, 1), (50, 50)])
def test_percentile_is_a_value_that_was_measured(percent: float, expected: int) -> None:
    assert percentile(list(range(100, 0, -1)), percent) == expected


def test_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 95) == 7


def test_geometric_means_are_computed() -> None:
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert math.isnan(geometric_mean([]))


def test_the_ratio_is_taken_round_by_round() -> None:
    """A round on a slow machine has the same weight as any other."""
    assert median_ratio([2, 200, 3], [1, 100, 1]) == 2


def test_steps_cycle_through_their_feeds() -> None:
    fed: list[int] = []
    times = timed_steps(fed.append, [(0,), (1,)], seconds=0)
    assert len(times) == MIN_STEPS
    assert fed == [0, 1, 0, 1, 0]


def test_steps_are_timed_by_the_chosen_clock() -> None:
    ticks = itertools.count()
    times = timed_steps(lambda: None, [()], seconds=0, clock=lambda: float(next(ticks)))
    assert times == [1.0] * MIN_STEPS
    assert set(CLOCKS) == {"wall", "processor"}


def test_settling_stops_at_the_time_limit() -> None:
    naps = iter([0.0005 * 2**number for number in range(100)])
    assert not settle(lambda: time.sleep(next(naps)), [()], limit=0.05)


def test_measurement_reports_its_basis() -> None:
    result = measure(lambda: None, [()], seconds=0.01, settle_seconds=0.01)
    assert result["steps"] >= MIN_STEPS
    assert result["median_s"] <= result["p95_s"]
