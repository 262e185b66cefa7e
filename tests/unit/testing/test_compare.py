"""Differences between results are described."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.testing.case import parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.golden import Answer


def case(extra="", op="Neg"):
    return next(iter(parse_cases(f'[[{op}]]\nin = ["float32[2]"]\n{extra}', "math")))


def answer(values, dtype="float32"):
    return Answer((np.asarray(values, dtype),), (dtype,))


def says(expected, actual, the_case=None, backend="numpy"):
    return difference(the_case or case(), expected, actual, backend)


def test_equal_answers_do_not_differ():
    assert says(answer([1, np.nan, np.inf]), answer([1, np.nan, np.inf])) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (answer([1.0]), answer([1.0], "float64"), "dtype float64, expected float32"),
        (answer([1.0]), answer([[1.0]]), r"shape \[1, 1\], expected \[1\]"),
        (answer([1, np.nan]), answer([np.nan, np.nan]), r"NaN positions differ.*first at \[0\]"),
        (answer([1, 2]), answer([1, 2.1]), r"1 of 2 differ, first at \[1\]"),
        (answer([np.inf]), answer([-np.inf]), "1 of 1 differ"),
        (answer([np.inf]), answer([3e38]), "1 of 1 differ"),
        (answer([1], "int32"), answer([2], "int32"), "1 of 1 differ"),
        (Answer(error="Internal"), answer([1.0]), "expected Internal, got a result"),
        (
            answer([1.0]),
            Answer(error="Internal", message="oh"),
            r"expected a result, got Internal \(oh\)",
        ),
        (Answer(error="Internal"), Answer(error="<KeyError>"), "expected Internal, got <KeyError>"),
        (answer([1.0]), Answer(), "0 outputs, expected 1"),
    ],
)
def test_all_kinds_of_difference_are_reported(expected, actual, words):
    import re

    assert re.search(words, says(expected, actual))


def test_one_ulp_is_accepted_and_a_thousandth_is_not():
    assert says(answer([1.0]), answer([1 + 1e-7])) == ""
    assert says(answer([1.0]), answer([1.001]))


def test_a_difference_is_reported_with_the_tolerance():
    wide = case('close = { rtol = 0.5, atol = 0, why = "a test" }')
    assert says(answer([2.0]), answer([4.0]), wide).endswith(
        "; they may differ by 1 (`close` of the case sets another tolerance)"
    )


def test_a_wrong_infinity_is_reported_without_a_tolerance():
    assert "may differ" not in says(answer([np.inf]), answer([1.0]))


def test_sums_are_measured_by_their_largest_element():
    expected, actual = answer([1e3, 1e-5]), answer([1e3, 2e-5])
    assert says(expected, actual)
    assert says(expected, actual, case(op="MatMul")) == ""


def test_a_case_may_widen_its_bound():
    assert (
        says(answer([1.0]), answer([1.1]), case('close = { rtol = 0.2, atol = 0, why = "a test" }'))
        == ""
    )


def test_other_comparisons():
    assert says(answer([1, 2]), answer([5, 6]), case('compare = "shape"')) == ""
    assert says(answer([1, 2]), answer([2, 1]), case('compare = "set"')) == ""
    assert says(answer([1.0]), answer([1 + 1.2e-7]), case('compare = "exact"'))


def test_deliberate_difference_is_compared_with_declared_result():
    the_case = case('differs = "why"\nerror = "Internal"')
    assert says(answer([1.0]), Answer(error="Internal"), the_case) == ""
    assert says(answer([1.0]), answer([1.0]), the_case)
