"""Pooling gradients computed tap by tap equal JAX's derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill_plugins.kernels.jax import nn_pool_grad  # noqa: E402
from graphmill_plugins.kernels.jax.nn_pool import avg_pool, max_pool  # noqa: E402
from graphmill_plugins.kernels.nn.window import make_axis  # noqa: E402

RNG = np.random.default_rng(3)
WINDOWS = [(8, 2, 2, "SAME"), (9, 3, 2, "SAME"), (9, 2, 3, "VALID")]


def place(size, kernel, stride, padding, rank=2):
    return (make_axis(size, kernel, stride, 1, padding),) * rank


def values(axes, *, is_distinct=True):
    shape = (2, *(axis.size for axis in axes), 3)
    flat = RNG.permutation(math.prod(shape)) if is_distinct else np.zeros(math.prod(shape))
    x = flat.reshape(shape).astype(np.float32)
    gradient = RNG.standard_normal((2, *(axis.out for axis in axes), 3)).astype(np.float32)
    return x, gradient


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_max_gradient_flows_to_the_maximum(window):
    axes = place(*window)
    x, gradient = values(axes)

    @jax.jit
    def both(x, gradient):
        out, transpose = jax.vjp(lambda value: max_pool(value, axes), x)
        return nn_pool_grad._max_gradient(x, out, gradient, axes), transpose(gradient)[0]

    got, expected = both(x, gradient)
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_small_and_large_windows_agree_on_equal_maxima(window, monkeypatch):
    axes = place(*window)
    x, gradient = values(axes, is_distinct=False)

    def run(x, gradient):
        return nn_pool_grad._max_gradient(x, max_pool(x, axes), gradient, axes)

    got = jax.jit(run)(x, gradient)
    monkeypatch.setattr(nn_pool_grad, "_MAX_TAPS", 0)
    expected = jax.jit(lambda *args: run(*args))(x, gradient)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_avg_gradient_is_shared_by_the_window(window, rank):
    axes = place(*window, rank)
    x, gradient = values(axes)

    @jax.jit
    def both(x, gradient):
        _, transpose = jax.vjp(lambda value: avg_pool(value, axes), x)
        return nn_pool_grad._avg_gradient(x.shape, gradient, axes), transpose(gradient)[0]

    got, expected = both(x, gradient)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
