"""Differences between results are described."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.testing.case import parse_cases
from graphmill.testing.compare import difference
from graphmill.testing.golden import CaseResult


def case(extra="", op="Neg"):
    return next(iter(parse_cases(f'[[{op}]]\nin = ["float32[2]"]\n{extra}', "math")))


def result(values, dtype="float32"):
    return CaseResult((np.asarray(values, dtype),), (dtype,))


def says(expected, actual, the_case=None, backend="numpy"):
    return difference(the_case or case(), expected, actual, backend)


def test_equal_results_do_not_differ():
    assert says(result([1, np.nan, np.inf]), result([1, np.nan, np.inf])) == ""


@pytest.mark.parametrize(
    ("expected", "actual", "words"),
    [
        (result([1.0]), result([1.0], "float64"), "dtype float64, expected float32"),
        (result([1.0]), result([[1.0]]), r"shape \[1, 1\], expected \[1\]"),
        (result([1, np.nan]), result([np.nan, np.nan]), r"NaN positions differ.*first at \[0\]"),
        (result([1, 2]), result([1, 2.1]), r"1 of 2 differ, first at \[1\]"),
        (result([np.inf]), result([-np.inf]), "1 of 1 differ"),
        (result([np.inf]), result([3e38]), "1 of 1 differ"),
        (result([1], "int32"), result([2], "int32"), "1 of 1 differ"),
        (CaseResult(error="Internal"), result([1.0]), "expected Internal, got a result"),
        (
            result([1.0]),
            CaseResult(error="Internal", message="oh"),
            r"expected a result, got Internal \(oh\)",
        ),
        (
            CaseResult(error="Internal"),
            CaseResult(error="<KeyError>"),
            "expected Internal, got <KeyError>",
        ),
        (result([1.0]), CaseResult(), "0 outputs, expected 1"),
    ],
)
def test_all_kinds_of_difference_are_reported(expected, actual, words):
    import re

    assert re.search(words, says(expected, actual))


def test_one_ulp_is_accepted_and_a_thousandth_is_not():
    assert says(result([1.0]), result([1 + 1e-7])) == ""
    assert says(result([1.0]), result([1.001]))


def test_a_difference_is_reported_with_the_tolerance():
    wide = case('close = { rtol = 0.5, atol = 0, why = "a test" }')
    assert says(result([2.0]), result([4.0]), wide).endswith(
        "; they may differ by 1 (`close` of the case sets another tolerance)"
    )


def test_a_wrong_infinity_is_reported_without_a_tolerance():
    assert "may differ" not in says(result([np.inf]), result([1.0]))


def test_sums_are_measured_by_their_largest_element():
    expected, actual = result([1e3, 1e-5]), result([1e3, 2e-5])
    assert says(expected, actual)
    assert says(expected, actual, case(op="MatMul")) == ""


def test_a_case_may_widen_its_bound():
    assert (
        says(result([1.0]), result([1.1]), case('close = { rtol = 0.2, atol = 0, why = "a test" }'))
        == ""
    )


def test_results_may_be_compared_by_shape_set_or_bits():
    assert says(result([1, 2]), result([5, 6]), case('compare = "shape"')) == ""
    assert says(result([1, 2]), result([2, 1]), case('compare = "set"')) == ""
    assert says(result([1.0]), result([1 + 1.2e-7]), case('compare = "exact"'))


def test_deliberate_difference_is_compared_with_declared_result():
    the_case = case('differs = "why"\nerror = "Internal"')
    assert says(result([1.0]), CaseResult(error="Internal"), the_case) == ""
    assert says(result([1.0]), result([1.0]), the_case)
