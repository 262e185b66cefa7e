"""Elementwise math beyond the op cases: types, fast paths, unchanged inputs."""

from __future__ import annotations

import operator

import ml_dtypes
import numpy as np
import pytest

from graphmill import errors

F32 = np.float32
BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("op", "function"),
    [("AddV2", operator.add), ("Mul", operator.mul), ("Less", operator.lt), ("Neg", operator.neg)],
)
def test_numpy_arithmetic_is_the_bare_operator(bind_kernel, op, function):
    inputs = [F32(1)] if op == "Neg" else [F32(1), F32(2)]
    assert bind_kernel(op, *inputs).compute is function


@pytest.mark.parametrize("op", ["Sigmoid", "Rsqrt", "TanhGrad", "DivNoNan", "FloorDiv", "Xlogy"])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)])
def test_type_and_shape_are_kept(call, op, dtype, shape):
    x = np.full(shape, 0.5, dtype)
    result = call(op, *([x] if op in ("Sigmoid", "Rsqrt") else [x, x]))
    assert result.dtype == dtype
    assert result.shape == shape


@pytest.mark.parametrize("op", ["Sigmoid", "Erf", "Square", "Sign"])
def test_input_is_not_modified(call, op):
    x = np.linspace(-3, 3, 4000, dtype=F32)
    before = x.copy()
    call(op, x)
    np.testing.assert_array_equal(x, before)


def test_add_n_does_not_modify_its_inputs(call):
    inputs = [np.ones(3, F32) for _ in range(3)]
    np.testing.assert_array_equal(call("AddN", inputs), [3, 3, 3])
    assert all((value == 1).all() for value in inputs)


def test_add_n_of_one_is_that_one(call):
    x = np.ones(3, F32)
    assert call("AddN", [x]) is x


def test_add_n_names_the_shape_that_differs(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"\[2\] != input 1: \[3\]"):
        call("AddN", [np.ones(2, F32), np.ones(3, F32)])


def test_narrow_floats_are_added_in_float32(call):
    ones = [np.ones((), np.float16)] * 3 + [np.full((), 2048, np.float16)]
    assert call("AddN", ones) == np.float16(2052)  # in half steps 2048 + 1 is 2048


def test_integer_overflow_wraps_in_silence(call):
    assert call("AddV2", np.int32(2**31 - 1), np.int32(1)) == -(2**31)
    assert call("Mul", np.array([100], np.int8), np.array([3], np.int8)) == [44]


def test_shift_counts_are_clamped(call):
    one, counts = np.int32(1), np.array([-5, 0, 31, 99], np.int32)
    np.testing.assert_array_equal(call("LeftShift", one, counts), [1, 1, -(2**31), -(2**31)])


def test_strings_are_concatenated_with_broadcasting(call):
    x = np.array([b"a", b"b"], object)
    assert call("Add", x, np.array(b"!", object)).tolist() == [b"a!", b"b!"]


def test_a_string_scalar_stays_an_array(call):
    result = call("Add", np.array(b"a", object), np.array(b"b", object))
    assert isinstance(result, np.ndarray)
    assert result[()] == b"ab"


def test_round_leaves_integers(call):
    x = np.array([1, -5], np.int32)
    assert call("Round", x) is x


def test_pow_refuses_negative_exponents_of_integers(call):
    with pytest.raises(ValueError, match="negative integer powers"):
        call("Pow", np.array([2], np.int32), np.array([-1], np.int32))


def test_fast_erf_is_as_accurate_as_the_slow_one(call):
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-6, 6, 70_001, dtype=F32)
    np.testing.assert_allclose(call("Erf", x), special.erf(x), rtol=5e-7, atol=1e-12)


def test_population_count_accepts_negative_numbers(call):
    np.testing.assert_array_equal(call("PopulationCount", np.array([-1, 5], np.int16)), [16, 2])


@pytest.mark.jax
@pytest.mark.parametrize("op", ["AddV2", "Mul", "Sub", "Maximum", "FloorMod"])
@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32, np.int8, np.int64])
def test_numpy_and_jax_agree(call, call_jax, op, dtype):
    x, y = np.array([7, -7, 3]).astype(dtype), np.array([2, 2, 3]).astype(dtype)
    expected = call(op, x, y)
    result = call_jax(op, x, y)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_rsqrt_of_infinities_is_zero(call, dtype):
    x = np.array([-np.inf, complex(1, np.inf), complex(np.nan, np.inf), -1, 4], dtype)
    assert call("Rsqrt", x).tolist() == [0, 0, 0, -1j, 0.5]
    assert call("Rsqrt", x[3:4].conj()).tolist() == [-1j]
    zero = call("Rsqrt", np.zeros(1, dtype))
    assert np.isinf(zero.real)
    assert np.isnan(zero.imag)


@pytest.mark.parametrize("caller", ["call", pytest.param("call_jax", marks=pytest.mark.jax)])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float32])
def test_sign_of_zero_is_positive(request, caller, dtype):
    call = request.getfixturevalue(caller)
    result = np.asarray(call("Sign", np.array([-0.0, 0.0, -2.0, np.nan], dtype)))
    np.testing.assert_array_equal(result.astype(np.float32), [0, 0, -1, np.nan])
    assert not np.signbit(result[:2].astype(np.float32)).any()


def test_quotients_are_rounded_before_they_are_truncated(call):
    x, y = np.array([1.5, -3.0], np.float16), np.full(2, 0.3, np.float16)
    assert call("TruncateDiv", x, y).tolist() == [5, -10]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_sigmoid_ends_in_zero_and_one(call, dtype):
    x = np.array([complex(-1e5, 2), complex(1e5, 2), -np.inf, 0], dtype)
    assert call("Sigmoid", x).tolist() == [0, 1, 0, 0.5]
