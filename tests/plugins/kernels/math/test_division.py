"""Division ops satisfy their identities; division by zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.math import division as math_division

SMALL = st.integers(-1000, 1000)


@given(SMALL, SMALL.filter(bool))
def test_floor_division_and_remainder_belong_together(x, y):
    a, b = np.int32(x), np.int32(y)
    quotient = math_division.floor_div(np, np.dtype(np.int32))(a, b)
    remainder = math_division.floor_mod(np, np.dtype(np.int32))(a, b)
    assert (quotient, remainder) == divmod(x, y)


@given(SMALL, SMALL.filter(bool))
def test_truncating_division_and_remainder_belong_together(x, y):
    a, b = np.array([x], np.int32), np.array([y], np.int32)
    quotient = math_division.div(np, np.dtype(np.int32))(a, b)
    remainder = math_division.truncate_mod(np, np.dtype(np.int32))(a, b)
    assert quotient == [int(x / y)]
    assert quotient * y + remainder == [x]


@pytest.mark.parametrize("op", ["Div", "FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod", "Mod"])
@pytest.mark.parametrize("y", [np.int32(0), np.array([1, 0], np.int32)])
def test_integer_division_by_zero_raises(call, op, y):
    with pytest.raises(errors.InvalidArgumentError, match="division by zero"):
        call(op, np.array([1, 2], np.int32), y)


@pytest.mark.parametrize("op", ["Div", "RealDiv", "FloorDiv"])
def test_float_division_by_zero_is_infinite(call, op):
    assert call(op, np.float32(1), np.float32(0)) == np.inf


@pytest.mark.parametrize("op", ["DivNoNan", "Xdivy", "Xlogy", "MulNoNan"])
def test_zero_times_nan_is_zero_where_the_op_declares_it(call, op):
    zero, nan = np.float32(0), np.float32(np.nan)
    given_first = op in ("Xdivy", "Xlogy")
    assert call(op, *((zero, nan) if given_first else (nan, zero))) == 0


def test_real_division_has_no_kernel_for_integers(call):
    with pytest.raises(errors.NotFoundError, match="int32"):
        call("RealDiv", np.int32(1), np.int32(2))


@pytest.mark.parametrize(("op", "y"), [("Xlogy", [3, 5, 13, 100]), ("Xlog1py", [2, 4, 12, 99])])
def test_products_with_logarithms_of_halves_are_rounded_after_each_step(call, op, y):
    x, y = np.float16([-3, -3, 7, 7]), np.float16(y)
    logs = np.log(np.float32([3, 5, 13, 100])).astype(np.float16)
    np.testing.assert_array_equal(call(op, x, y), x * logs)
