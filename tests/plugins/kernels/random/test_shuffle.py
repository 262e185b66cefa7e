"""Vectorized swaps equal sequential swaps."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.random import _shuffle


def assert_swapped_in_order(others):
    expected = list(range(len(others) + 1))
    for position, other in enumerate(others.tolist()):
        expected[position], expected[other] = expected[other], expected[position]
    assert _shuffle.swapped(len(others) + 1, others).tolist() == expected


@pytest.mark.parametrize("size", [2, 3, 100, 5000, 1 << 16, (1 << 16) + 1, 200_000])
@pytest.mark.parametrize("max_sequential", [1, 300])
def test_vectorized_swaps_equal_sequential_swaps(size, max_sequential, monkeypatch):
    monkeypatch.setattr(_shuffle, "_MAX_SEQUENTIAL", max_sequential)
    positions = np.arange(size - 1)
    random = np.random.default_rng(size)
    assert_swapped_in_order(positions + random.integers(0, size - positions))


@pytest.mark.parametrize("offset", [0, 1, 499])
def test_chains_of_equal_swaps_are_followed_to_their_ends(offset):
    assert_swapped_in_order(np.minimum(np.arange(499) + offset, 499))
