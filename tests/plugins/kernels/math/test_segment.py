"""Segment reductions equal a loop over rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from graphmill import errors
from graphmill_plugins.kernels.math import segment as math_segment

IDS = hnp.arrays(np.int32, st.integers(0, 12), elements=st.integers(0, 5))


@given(IDS, st.sampled_from([(), (1,), (3,), (2, 2)]))
def test_combining_is_a_loop_over_rows(ids, inner):
    data = np.arange(ids.size * int(np.prod(inner)), dtype=np.int64).reshape(ids.size, *inner)
    expected = np.zeros((6, *inner), np.int64)
    for row, place in zip(data, ids, strict=True):
        expected[place] += row
    np.testing.assert_array_equal(math_segment.combine(np.add, data, ids, 6, 0), expected)


@given(IDS)
def test_maxima_of_empty_segments_hold_the_fill(ids):
    data = np.arange(ids.size, dtype=np.float32)
    result = math_segment.combine(np.maximum, data, ids, 6, -7)
    for place in range(6):
        assert result[place] == max(data[ids == place], default=-7)


@pytest.mark.parametrize(
    ("ids", "message"),
    [([0, 2, 1], "not increasing"), ([-1, 0, 1], ">= 0"), ([0, 1], "one id for each row")],
)
def test_invalid_ids_are_refused(call, ids, message):
    with pytest.raises(errors.InvalidArgumentError, match=message):
        call("SegmentSum", np.ones(3, np.float32), np.array(ids, np.int32))


def test_an_id_beyond_the_segments_is_named(call):
    ids = np.array([[0, 1], [4, 0]], np.int32)
    with pytest.raises(errors.InvalidArgumentError, match=r"segment_ids\[1,0\] = 4"):
        call("UnsortedSegmentSum", np.ones((2, 2), np.float32), ids, np.int32(3))


def test_negative_ids_drop_their_rows(call):
    ids = np.array([-1, 0], np.int32)
    np.testing.assert_array_equal(
        call("UnsortedSegmentSum", np.array([5, 7], np.float32), ids, np.int32(1)), [7]
    )


def test_narrow_floats_are_added_in_float32(call):
    ids = np.zeros(4096, np.int32)
    assert call("SegmentSum", np.ones(4096, np.float16), ids) == [4096]


@pytest.mark.jax
@pytest.mark.parametrize("op", ["Sum", "Prod", "Max", "Min"])
def test_numpy_and_jax_agree(call, call_jax, op):
    data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    ids = np.array([2, -1, 2], np.int32)
    expected = call(f"UnsortedSegment{op}", data, ids, np.int32(4))
    np.testing.assert_array_equal(call_jax(f"UnsortedSegment{op}", data, ids, 4), expected)
