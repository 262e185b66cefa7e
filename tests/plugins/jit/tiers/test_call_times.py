"""Call durations decide between the tiers of a cluster."""

from __future__ import annotations

import pytest

from graphmill_plugins.jit.tiers.call_times import CallTimes


def times(*values: int) -> CallTimes:
    made = CallTimes()
    for value in values:
        made.add(value)
    return made


def test_equal_calls_count_as_their_minimum() -> None:
    assert times(30, 10, 20).typical(varies=False) == 10


def test_calls_that_differ_take_the_mean() -> None:
    assert times(10, 100).typical(varies=True) == 55


def test_longest_of_many_calls_is_ignored() -> None:
    assert times(*(10, 100) * 4, 9_000).typical(varies=True) == 55


@pytest.mark.parametrize("varies", [False, True])
def test_one_call_is_its_duration(varies: bool) -> None:
    assert times(7).typical(varies=varies) == 7


@pytest.mark.parametrize("varies", [False, True])
def test_any_time_is_shorter_than_no_calls(varies: bool) -> None:
    assert times().typical(varies=varies) > 10**15
