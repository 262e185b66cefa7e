"""Activations beyond the op cases: small numbers, edges, large arrays, derivatives on JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill_plugins.kernels.nn.activation import (
    SELU_SCALE,
    SELU_SCALE_ALPHA,
    elu,
    leaky_relu,
    relu,
    selu,
)

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.divided, pytest.mark.jax]
pytest.importorskip("jax")

NEGATIVE = -np.logspace(-30, 2, 4000, dtype=np.float32)


@pytest.mark.parametrize(("op", "factor"), [("Elu", 1.0), ("Selu", SELU_SCALE_ALPHA)])
def test_all_digits_of_negative_numbers_are_right(
    call_jax: Callable[..., Any], op: str, factor: float
) -> None:
    expected = factor * np.expm1(NEGATIVE.astype(np.float64))
    np.testing.assert_allclose(np.asarray(call_jax(op, NEGATIVE)), expected, rtol=3e-7)


@pytest.mark.parametrize(("op", "scale"), [("Elu", 1.0), ("Selu", SELU_SCALE)])
def test_edges(call_jax: Callable[..., Any], op: str, scale: float) -> None:
    found = np.asarray(
        call_jax(op, np.array([-np.inf, -0.0, 0.0, 2.0, np.inf, np.nan], np.float32))
    )
    least = -1 if op == "Elu" else -SELU_SCALE_ALPHA
    np.testing.assert_allclose(found, [least, 0, 0, 2 * scale, np.inf, np.nan], rtol=1e-6)


def test_derivatives_of_large_negative_numbers_are_numbers() -> None:
    """An exported function may be differentiated by JAX."""
    import jax

    slopes = jax.vmap(jax.grad(lambda x: elu(jax.numpy, x)))(
        np.array([-1e30, -1, -0.1], np.float32)
    )
    np.testing.assert_allclose(slopes, np.exp([-1e30, -1, -0.1]), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("activate", [relu, elu, selu, leaky_relu])
def test_large_arrays_are_those_of_their_parts(activate: Callable[..., Any], dtype: str) -> None:
    """Kernels use other functions for many elements; the values are the same."""
    x = np.random.default_rng(3).normal(scale=3, size=(150, 151)).astype(dtype)
    x[0, :5] = [np.nan, np.inf, -np.inf, -0.0, 0.0]

    def function(values: Any) -> Any:
        if activate is leaky_relu:
            return leaky_relu(np, 0.25, values.dtype)(values)
        return activate(np, values)

    before = x.copy()
    for whole in (x, x.T, x[:, ::2]):
        found = function(whole)
        assert found.dtype == x.dtype
        expected = np.stack([function(row.copy()) for row in whole])
        np.testing.assert_allclose(found, expected, rtol=2e-3 if dtype == "float16" else 1e-6)
    np.testing.assert_array_equal(x, before)
