"""Erfc of float32 without SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphmill_plugins.kernels.math.special import erfc_float32


@pytest.mark.parametrize("count", [20, 2001], ids=["one by one", "all at once"])
def test_small_results_keep_their_places(count: int) -> None:
    x = np.linspace(-9, 9, count, dtype=np.float32)
    expected = [math.erfc(value) for value in x.tolist()]
    np.testing.assert_allclose(erfc_float32(x), np.array(expected, np.float32), rtol=2e-7)


def test_nan_and_large_arguments_give_the_limits() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0] * 10, np.float32)
    expected = np.array([np.nan, 0, 2, 0, 2, 1] * 10, np.float32)
    np.testing.assert_array_equal(erfc_float32(x), expected)
