"""Sine, cosine and tangent of float32 are exact to a few units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.jax import math_trigonometric
from graphmill_plugins.kernels.jax.math_trigonometric import FUNCTIONS

jax = pytest.importorskip("jax")
EXACT = {"Sin": np.sin, "Cos": np.cos, "Tan": np.tan}
UNITS = {"Sin": 2, "Cos": 2, "Tan": 4}
MADE = {definition.ops[0]: definition.function for definition in FUNCTIONS}
SPECIAL = np.array([0.0, -0.0, np.nan, 1e-38, -1e-30, np.pi, np.pi / 2, -np.pi / 4], np.float32)
BEYOND = np.array([np.inf, -np.inf, 2.0**20, -(2.0**21), 1e30, 3e38], np.float32)


def computed(op: str, x: np.ndarray) -> np.ndarray:
    with jax.enable_x64(True):
        function = MADE[op](None, x.dtype)
        return np.asarray(jax.jit(function)(x))


@pytest.mark.parametrize("op", sorted(EXACT))
@pytest.mark.parametrize("scale", [1.0, 1e-3, 100.0, 2e5])
@pytest.mark.parametrize("special", [SPECIAL, BEYOND], ids=["usual", "large"])
def test_the_error_is_a_few_units_in_the_last_place(op, scale, special):
    numbers = np.random.default_rng(7).standard_normal(9000).astype(np.float32)
    x = np.concatenate([numbers * np.float32(scale), special])
    found = computed(op, x)
    with np.errstate(invalid="ignore"):
        exact = EXACT[op](x.astype(np.float64))
    assert found.dtype == np.float32
    assert np.array_equal(np.isnan(found), np.isnan(exact))
    is_number = ~np.isnan(exact)
    unit = np.spacing(np.abs(exact[is_number]).astype(np.float32))
    assert (np.abs(found[is_number] - exact[is_number]) <= UNITS[op] * unit).all()
    assert np.array_equal(np.signbit(found[x == 0]), np.signbit(exact[x == 0]))


@pytest.mark.parametrize("op", sorted(EXACT))
@pytest.mark.parametrize("size", [0, 3, 8191, 8192])
def test_arrays_of_all_sizes_are_exact(op, size):
    x = np.linspace(-9, 9, size, dtype=np.float32)
    np.testing.assert_allclose(computed(op, x), EXACT[op](x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", sorted(EXACT))
def test_float16_is_computed_in_float32(op):
    x = np.linspace(-9, 9, 9000, dtype=np.float16)
    found = computed(op, x)
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found, EXACT[op](x.astype(np.float32)).astype(np.float16))


def test_large_elements_are_left_to_the_general_function():
    """The general function computes arrays with a large element."""
    chosen = jax.jit(math_trigonometric._polynomial_on_cpu(lambda x: x * 0, lambda x: x * 0 + 1))
    usual = np.linspace(-9, 9, 9000, dtype=np.float32)
    assert not np.asarray(chosen(usual)).any()
    assert np.asarray(chosen(np.append(usual, np.float32(2.0**21)))).all()


@pytest.mark.parametrize("op", sorted(EXACT))
def test_small_arrays_are_fused_without_a_conditional(op):
    """A conditional would separate the function from the operations around it."""
    function = MADE[op](None, np.dtype(np.float32))
    text = jax.jit(lambda x: function(x + 1) * 2).lower(np.ones(8191, np.float32)).as_text()
    assert "stablehlo.case" not in text
    assert "stablehlo.if" not in text
