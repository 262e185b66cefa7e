"""`trace_once` traces a function once for equal shapes and static arguments."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

from graphmill_plugins.kernels.jax._trace_once import trace_once  # noqa: E402


def test_equal_calls_are_traced_once():
    traced = []

    @trace_once("factor")
    def scaled(x, factor):
        traced.append((x.shape, factor))
        return x * factor

    def network(x):
        return scaled(scaled(x, 2), 2), scaled(x, 3), scaled(x[1:], 2)

    results = jax.jit(network)(np.ones(2, np.float32))
    np.testing.assert_array_equal(np.concatenate(results), [4, 4, 3, 3, 2])
    assert sorted(traced) == [((1,), 2), ((2,), 2), ((2,), 3)]


def test_the_function_is_documented():
    @trace_once()
    def doubled(x):
        """Return twice a value."""
        return x + x

    assert doubled.__doc__ == "Return twice a value."
    assert doubled(np.float32(2)) == 4
