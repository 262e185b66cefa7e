"""Segment reduction in rounds or by runs equals sequential reduction."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.math.segment import combine_sorted
from graphmill_plugins.kernels.segment_reduce import (
    are_short,
    are_wide,
    combine_in_rounds,
    combine_runs,
    run_starts,
)


@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.maximum, np.multiply])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_rounds_combine_like_sequential_updates(ufunc, count):
    random = np.random.default_rng(count)
    places, rows = random.integers(0, 9, count), random.random((count, 3))
    expected, actual = np.ones((9, 3)), np.ones((9, 3))
    ufunc.at(expected, places, rows)
    order = np.argsort(places, kind="stable")
    ids = places[order]
    combine_in_rounds(ufunc, actual, ids, run_starts(ids), rows, order)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("position", [0, 1])
def test_rounds_start_at_a_position_and_divide_integers(position):
    ids = np.repeat([1, 4, 5], [1, 5, 3])
    rows = np.arange(2, 20).reshape(9, 2)
    expected, actual = np.full((6, 2), 10**6), np.full((6, 2), 10**6)
    for start in run_starts(ids):
        for row in range(start + position, len(ids)):
            if ids[row] == ids[start]:
                expected[ids[row]] = expected[ids[row]] / rows[row]
    combine_in_rounds(np.divide, actual, ids, run_starts(ids), rows, position=position)
    assert actual.tolist() == expected.tolist()


@pytest.mark.parametrize("ufunc", [np.add, np.maximum, np.multiply])
@pytest.mark.parametrize("longest", [3, 40])
@pytest.mark.parametrize("columns", [2, 400])
@pytest.mark.parametrize("has_empty", [False, True])
@pytest.mark.parametrize("in_order", [False, True])
def test_segments_equal_sequential_updates(ufunc, longest, columns, has_empty, in_order):
    random = np.random.default_rng(3)
    lengths = random.integers(1, longest + 1, 60)
    lengths[7] = 0 if has_empty else longest
    ids = np.repeat(np.arange(60), lengths)
    rows = random.integers(1, 3, (len(ids), columns)).astype(np.float32)
    order = None if in_order else random.permutation(len(ids))
    expected = np.full((60, columns), 2, np.float32)
    initial = np.flatnonzero(np.diff(ids, prepend=-1))
    taken = rows if order is None else rows[order]
    expected[ids[initial]] = taken[initial]
    for row in sorted({*range(len(ids))} - {*initial.tolist()}):
        expected[ids[row]] = ufunc(expected[ids[row]], taken[row])
    found = combine_sorted(ufunc, rows, ids, 60, 2, order)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("ufunc", [np.add, np.maximum])
@pytest.mark.parametrize("in_order", [True, False])
def test_runs_of_wide_rows_combine_as_one_by_one(ufunc, in_order):
    random = np.random.default_rng(1)
    ids, rows = np.sort(random.integers(0, 5, 40)), random.random((40, 100))
    order = None if in_order else random.permutation(40)
    expected, actual = np.zeros((6, 100)), np.zeros((6, 100))
    ufunc.at(expected, ids, rows if order is None else rows[order])
    assert are_wide(rows)
    combine_runs(ufunc, actual, ids, run_starts(ids), rows, order)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_starts_of_runs_are_found():
    assert run_starts(np.array([2, 2, 3, 7, 7])).tolist() == [0, 2, 3]
    assert run_starts(np.array([], np.int64)).tolist() == []


def test_long_runs_do_not_use_rounds():
    ids = np.repeat([1, 2], [3, 40])
    assert not are_short(run_starts(ids), ids.size)
    assert are_short(run_starts(ids[:8]), 8)
