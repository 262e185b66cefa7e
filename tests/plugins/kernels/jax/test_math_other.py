"""Powers of integers are exact modulo the range of their type, for exponents of any size."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill import dtypes

pytest.importorskip("jax")
pytestmark = pytest.mark.jax


@pytest.mark.parametrize("dtype", [dtype.as_numpy_dtype for dtype in dtypes.INTEGER])
def test_powers_of_integers_are_numpys(call_jax, dtype):
    rng = np.random.default_rng(3)
    limits = np.iinfo(dtype)
    x = rng.integers(limits.min, limits.max, 300, dtype=dtype, endpoint=True)
    y = rng.integers(0, limits.max, 300, dtype=dtype, endpoint=True)
    x[:3], y[:100] = [0, 1, 2], rng.integers(0, 127, 100)
    np.testing.assert_array_equal(call_jax("Pow", x, y), np.power(x, y))
    np.testing.assert_array_equal(call_jax("Pow", x, y[5]), np.power(x, y[5]))
    np.testing.assert_array_equal(call_jax("Pow", x[:2], y[:2, None]), x[:2] ** y[:2, None])


def test_zero_to_the_power_of_64_is_zero(call_jax):
    assert call_jax("Pow", np.zeros(1, np.int32), np.full(1, 64, np.int32)).tolist() == [0]
