"""The largest elements of long axes are found by sorting; order, ties and NaN are as for others."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.jax import nn_pool

jax = pytest.importorskip("jax")
SIZE = nn_pool._MIN_SORTED_SIZE
INT32 = np.dtype(np.int32)


def largest(values: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    with jax.enable_x64(True):
        best, order = jax.jit(lambda x: nn_pool._top_k(x, k, INT32))(values)
    return np.asarray(best), np.asarray(order)


@pytest.mark.parametrize("k", [SIZE // 4, SIZE // 2, SIZE - 1, SIZE])
def test_values_and_indices_are_those_of_a_stable_sort(k):
    numbers = np.random.default_rng(3).integers(-40, 40, (3, 2, SIZE)) / 8  # with many ties
    values = numbers.astype(np.float32)
    best, order = largest(values, k)
    expected = np.argsort(-values, axis=-1, kind="stable")[..., :k]
    np.testing.assert_array_equal(order, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(values, expected, -1))


def test_special_values_are_ordered():
    values = np.zeros(SIZE, np.float32)
    values[3:11] = [-np.inf, np.inf, -np.nan, np.nan, 1e-45, -1e-45, 3e38, -3e38]
    values[[0, 20]] = -0.0
    best, order = largest(values, SIZE)
    assert order[:5].tolist() == [5, 6, 4, 9, 7]  # both NaN, infinity, the largest, the smallest
    assert order[5:8].tolist() == [0, 1, 2]  # zeros of both signs are equal
    assert order[-3:].tolist() == [8, 10, 3]
    assert np.signbit(best[5])
    assert not np.signbit(best[6])


def test_long_axes_are_sorted_as_single_integers():
    values = np.ones((2, SIZE), np.float32)
    with jax.enable_x64(True):
        text = jax.jit(lambda x: nn_pool._top_k(x, SIZE, INT32)).lower(values).as_text()
    assert "stablehlo.sort" in text
    assert "top_k" not in text.lower()
