"""Products, casts, sequences, packed comparisons, derivatives."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.steps.step_runner import running

BF16 = np.dtype(ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("op", ["MatMul", "BatchMatMulV2"])
def test_narrow_products_are_accumulated_in_float32(call, op, dtype):
    result = call(op, np.ones((1, 4096), dtype), np.ones((4096, 1), dtype))
    assert result.dtype == dtype
    assert result == [[4096]]


def test_matrix_sizes_that_do_not_fit_are_named(call):
    with pytest.raises(errors.InvalidArgumentError, match=r"In\[0\]: \[2,3\], In\[1\]: \[2,3\]"):
        call("MatMul", np.ones((2, 3), np.float32), np.ones((2, 3), np.float32))


def test_the_adjoint_conjugates_and_the_transpose_does_not(call):
    x = np.array([[1j]], np.complex64)
    assert call("BatchMatMulV2", x, x, adj_x=True) == [[1]]
    assert call("MatMul", x, x, transpose_a=True) == [[-1]]


def test_a_cast_to_the_same_type_is_the_value_itself(call):
    x = np.ones(2, np.float32)
    assert call("Cast", x, DstT="float32") is x


def test_a_cast_of_complex_numbers_takes_the_real_part(call):
    assert call("Cast", np.array([3 + 4j], np.complex64), DstT="int32") == [3]


def test_strings_cannot_be_cast(call):
    with pytest.raises(errors.UnimplementedError):
        call("Cast", np.array([b"1"], object), DstT="int32")


@pytest.mark.jax
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8"])
def test_casts_out_of_range_are_the_same_on_jax(call, call_jax, dtype):
    x = np.array([-1.5, 300.7, 70000, 3e9, -3e9, np.nan, np.inf], np.float32)
    np.testing.assert_array_equal(call_jax("Cast", x, DstT=dtype), call("Cast", x, DstT=dtype))


def test_a_float_range_is_rounded_as_it_is_counted(call):
    result = call("Range", *np.array([0, 1, 0.1], np.float32))
    expected = np.float32(0)
    for value in result:
        assert value == expected
        expected = expected + np.float32(0.1)


@pytest.mark.parametrize("values", [(0, 5, 0), (5, 0, 1), (0, 5, -1)])
def test_a_range_that_leads_nowhere(call, values):
    with pytest.raises(errors.InvalidArgumentError, match="Requires"):
        call("Range", *np.array(values, np.int32))


def test_comparisons_are_packed_eight_to_a_byte(call):
    x = np.array([[1, 0, 0, 0, 0, 0, 0, 2]], np.float32)
    np.testing.assert_array_equal(call("CompareAndBitpack", x, np.float32(0)), [[0b10000001]])


def test_only_rows_of_whole_bytes_can_be_packed(call):
    with pytest.raises(errors.InvalidArgumentError, match="divisible by 8"):
        call("CompareAndBitpack", np.ones(7, np.float32), np.float32(0))


@pytest.mark.parametrize(("a", "x"), [(0.5, 0.3), (2.0, 5.0), (20.0, 15.0), (3.0, 30.0)])
def test_the_derivative_of_igamma_matches_finite_differences(call, a, x):
    special = pytest.importorskip("scipy.special")
    step = 1e-6
    expected = (special.gammainc(a + step, x) - special.gammainc(a - step, x)) / (2 * step)
    result = call("IgammaGradA", np.float64(a), np.float64(x))
    assert result == pytest.approx(expected, rel=1e-5, abs=1e-9)


def test_scalar_conditions_return_the_chosen_value_itself(call):
    t, e = np.ones(2, np.float32), np.zeros(2, np.float32)
    assert call("Select", np.bool_(True), t, e) is t
    assert call("SelectV2", np.bool_(False), t, e) is e


def test_unequal_shapes_may_be_unequal(call):
    x, y = np.ones(2, np.float32), np.ones(3, np.float32)
    assert not call("Equal", x, y, incompatible_shape_error=False)
    assert call("NotEqual", x, y, incompatible_shape_error=False)
    with pytest.raises(ValueError, match="broadcast"):
        call("Equal", x, y)


@pytest.mark.parametrize("op", ["Cumsum", "Cumprod"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_ops_accept_an_empty_axis(call, op, exclusive, reverse):
    x = np.zeros((2, 0), np.float32)
    assert call(op, x, np.int32(1), exclusive=exclusive, reverse=reverse).shape == (2, 0)


@pytest.mark.parametrize("x", [0.5, 50.0])
def test_derivative_of_the_incomplete_gamma_function_ends_with_its_step(call, x):
    pytest.importorskip("scipy.special")
    a, x_array = np.ones(2, np.float32), np.full(2, x, np.float32)
    assert np.isfinite(call("IgammaGradA", a, x_array)).all()
    with running(SimpleNamespace(is_cancelled=True)), pytest.raises(errors.CancelledError):
        call("IgammaGradA", a, x_array)


@pytest.mark.parametrize("caller", ["call", pytest.param("call_jax", marks=pytest.mark.jax)])
def test_zeta_of_an_infinite_exponent_is_its_first_term(request, caller):
    pytest.importorskip("scipy.special")
    q = np.array([-2, 0, 0.3, 1, 1.5, np.inf, np.nan], np.float32)
    result = request.getfixturevalue(caller)("Zeta", np.full(7, np.inf, np.float32), q)
    np.testing.assert_array_equal(result, [np.inf, np.inf, np.inf, 1, 0, 0, np.nan])
