"""Distances in units in the last place, and the tolerance."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill.comparison import Tolerance, difference_of, units_in_last_place
from graphmill.errors import InvalidArgumentError

EXACT = Tolerance(0, 0)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2])
def test_neighbouring_narrow_floats_differ_by_one_ulp(dtype):
    width = np.dtype(dtype).itemsize
    bits = np.arange(1 << (8 * width), dtype=f"u{width}")
    with np.errstate(invalid="ignore"):  # NaN
        numbers = bits.view(dtype).astype(np.float64)
    finite = np.unique(numbers[np.isfinite(numbers)])  # sorted, with one zero
    ordered = finite.astype(dtype)
    assert np.all(units_in_last_place(ordered[1:], ordered[:-1]) == 1)


@given(st.floats(-1e300, 1e300), st.integers(0, 40))
def test_distance_counts_the_steps_between_float64(start, steps):
    value = start
    for _ in range(steps):
        value = math.nextafter(value, math.inf)
    assert units_in_last_place([start], [value])[0] == steps


def test_distance_of_the_ends_of_float64_is_finite():
    low, high = np.finfo(np.float64).min, np.finfo(np.float64).max
    assert units_in_last_place([low], [high])[0] == pytest.approx(2 * 0x7FEFFFFFFFFFFFFF)


def test_special_numbers_have_their_distances():
    a = np.float32([0.0, math.nan, math.nan, math.inf, math.inf])
    b = np.float32([-0.0, math.nan, 1.0, math.inf, -math.inf])
    distances = units_in_last_place(a, b)
    assert distances[[0, 1, 3]].tolist() == [0, 0, 0]
    assert distances[2] == math.inf
    assert distances[4] > 4e9


def test_other_types_have_distances():
    assert units_in_last_place(np.complex64([1 + 2j]), np.complex64([1 - 2j]))[0] > 1e9
    assert units_in_last_place([3, -5], [1, 5]).tolist() == [2, 10]
    assert units_in_last_place(np.uint64([2**64 - 1]), np.uint64([2**64 - 2]))[0] == 1
    assert units_in_last_place([True, False], [True, True]).tolist() == [0, 1]
    strings = np.array([b"a", b"b"], object), np.array([b"a", b"c"], object)
    assert units_in_last_place(*strings).tolist() == [0, 1]
    assert units_in_last_place(np.float32(1), np.float32(2)).shape == ()


def test_tolerances_accept_close_values():
    a, b = np.float32([1.0, 1.0]), np.float32([1.0, 1.0 + 2**-20])
    assert not difference_of("x:0", a, b, Tolerance()).is_outside
    assert difference_of("x:0", a, b, EXACT).num_outside == 1
    assert not difference_of("x:0", a, b, Tolerance(0, 0, ulps=8)).is_outside
    assert difference_of("x:0", a, b, Tolerance(0, 0, ulps=7)).is_outside
    assert difference_of("x:0", [1], [2], Tolerance(rtol=10)).is_outside  # integers are exact


def test_the_worst_element_is_described():
    a = np.float32([[1, 2], [3, 4]])
    b = np.float32([[1, 2], [3.5, 4]])
    found = difference_of("x:0", a, b, EXACT, "Neg")
    assert (found.index, found.a, found.b, found.max_abs) == ((1, 0), "3.0", "3.5", 0.5)
    assert "1 of 4 elements" in str(found)
    assert "x:0 (Neg)" in str(found)


def test_the_absolute_difference_of_nan_is_infinite():
    found = difference_of("x:0", np.float32([math.inf, math.nan]), np.float32([math.inf, 1]), EXACT)
    assert (found.max_abs, found.num_outside, found.index) == (math.inf, 1, (1,))


def test_nan_in_both_is_not_a_difference():
    values = np.float32([math.nan, -math.inf, 1])
    found = difference_of("x:0", values, values, EXACT)
    assert (found.max_abs, found.is_outside) == (0, False)


def test_shapes_and_types_that_differ_are_the_reason():
    assert "the shapes are [2] and [3]" in str(difference_of("x:0", [1, 2], [1, 2, 3], EXACT))
    found = difference_of("x:0", np.float32([1]), np.float64([1]), EXACT)
    assert found.reason == "the types are float32 and float64"
    assert found.is_outside


def test_empty_and_scalar_values_are_compared():
    assert not difference_of("x:0", np.zeros((0, 3)), np.zeros((0, 3)), EXACT).is_outside
    found = difference_of("x:0", np.float32(1), np.float32(2), EXACT)
    assert (found.index, found.size, found.num_outside) == ((), 1, 1)
    assert difference_of("x:0", b"a", b"a", EXACT).max_ulps == 0


@pytest.mark.parametrize("bounds", [{"rtol": -1}, {"atol": math.nan}, {"ulps": -0.5}])
def test_a_negative_tolerance_is_refused(bounds):
    with pytest.raises(InvalidArgumentError, match=next(iter(bounds))):
        Tolerance(**bounds)
