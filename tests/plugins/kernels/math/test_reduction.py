"""Reductions: accumulation, axes, empty inputs, NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphmill import errors

BF16 = np.dtype(ml_dtypes.bfloat16)
AXES = np.array([0], np.int32)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize(("op", "expected"), [("Sum", 4096), ("Mean", 1)])
def test_narrow_floats_are_accumulated_in_float32(call, dtype, op, expected):
    result = call(op, np.ones(4096, dtype), AXES)  # in halves the sum would stop at 2048
    assert result.dtype == dtype
    assert result == expected


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16])
@pytest.mark.parametrize("op", ["Sum", "Prod", "Max", "Min", "Mean"])
def test_integers_keep_their_type(call, op, dtype):
    assert call(op, np.array([1, 2, 4], dtype), AXES).dtype == dtype


def test_a_sum_of_small_integers_wraps(call):
    assert call("Sum", np.full(3, 100, np.int8), AXES) == 44


def test_a_mean_of_integers_is_truncated(call):
    assert call("Mean", np.array([-3, 0], np.int32), AXES) == -1


@pytest.mark.parametrize(
    ("op", "expected"),
    [("Max", -np.inf), ("Min", np.inf), ("Sum", 0), ("Prod", 1), ("Mean", np.nan)],
)
def test_a_reduction_of_nothing_returns_the_neutral_element(call, op, expected):
    np.testing.assert_equal(
        call(op, np.zeros((0, 2), np.float32), AXES), np.float32([expected] * 2)
    )


@pytest.mark.parametrize("axes", [[0, 0], [1, -1], [2], [-3]])
def test_bad_axes_are_named(call, axes):
    with pytest.raises(errors.InvalidArgumentError, match=str(axes[-1])):
        call("Sum", np.ones((2, 2), np.float32), np.array(axes, np.int32))


def test_axes_may_be_a_scalar(call):
    np.testing.assert_array_equal(call("Sum", np.ones((2, 3), np.float32), np.int32(1)), [3, 3])


def test_no_axes_change_nothing(call):
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(call("Max", x, np.zeros(0, np.int32)), x)


@pytest.mark.parametrize(("op", "expected"), [("ArgMax", 2), ("ArgMin", 1)])
def test_the_place_of_the_extreme_passes_over_nan(call, op, expected):
    assert call(op, np.array([np.nan, 1, 3], np.float32), np.int32(0)) == expected


def test_the_first_of_equals_is_the_place(call):
    assert call("ArgMax", np.array([2, 5, 5], np.int32), np.int32(0)) == 1


@pytest.mark.jax
@pytest.mark.parametrize("op", ["Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm"])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.int32, np.int8])
def test_numpy_and_jax_agree(call, call_jax, op, dtype):
    x = np.array([[1, 2, 3], [4, 2, 1]]).astype(dtype)
    expected = call(op, x, np.array([1], np.int32), keep_dims=True)
    result = call_jax(op, x, (1,), keep_dims=True)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result.astype(float), expected.astype(float), rtol=1e-3)


@pytest.mark.jax
def test_nan_is_passed_over_on_jax_too(call_jax):
    assert call_jax("ArgMax", np.array([np.nan, 1, 3], np.float32), 0) == 2


@pytest.mark.parametrize("shape", [(90, 91), (7001,), (5, 30, 77), (2, 5000)])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_products_of_many_floats_are_accurate(call, shape, keep_dims):
    x = np.random.default_rng(1).uniform(0.99, 1.01, shape)
    for first in range(len(shape)):
        axes = tuple(range(first, len(shape)))
        made = call("Prod", x, np.array(axes), keep_dims=keep_dims)
        np.testing.assert_allclose(made, np.prod(x, axes, keepdims=keep_dims), rtol=1e-12)
