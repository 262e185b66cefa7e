"""Truncated normal numbers on JAX are those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = [pytest.mark.jax, pytest.mark.divided]

jax = pytest.importorskip("jax")

from graphmill_plugins.kernels.jax import random_truncated  # noqa: E402
from graphmill_plugins.kernels.random import stateless  # noqa: E402


@pytest.mark.parametrize(("dtype", "count"), [("float32", 1001), ("float64", 201), ("float16", 30)])
def test_numbers_are_bitwise_those_of_numpy(dtype, count):
    dtype = np.dtype(dtype)
    seed, shape = np.array([3, -5], np.int32), np.array([count], np.int32)
    with np.errstate(all="ignore"):
        expected = stateless.stateless_truncated_normal(np, shape, seed, dtype)
    with jax.enable_x64(True):
        draw = jax.jit(lambda seed: random_truncated.stateless_truncated_normal(shape, seed, dtype))
        found = np.asarray(draw(seed))
    assert (found.dtype, found.tobytes()) == (dtype, expected.tobytes())


def test_no_numbers_are_drawn_for_an_empty_shape():
    shape, seed = np.array([0, 3], np.int32), np.array([3, -5], np.int32)
    with jax.enable_x64(True):
        found = random_truncated.stateless_truncated_normal(shape, seed, np.dtype("float32"))
    assert found.shape == (0, 3)
