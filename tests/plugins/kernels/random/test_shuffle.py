"""Batched swaps equal sequential swaps."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.random import _shuffle


@pytest.mark.parametrize("size", [2, 3, 100, 5000])
@pytest.mark.parametrize("max_sequential", [1, 50])
def test_vectorized_runs_equal_sequential_swaps(size, max_sequential, monkeypatch):
    monkeypatch.setattr(_shuffle, "_MAX_SEQUENTIAL", max_sequential)
    monkeypatch.setattr(_shuffle, "_POSITIONS_PER_SWAP", 4)  # many positions are shared
    others = np.arange(size - 1) + np.random.default_rng(size).integers(
        0, size - np.arange(size - 1)
    )
    expected = list(range(size))
    for position, other in enumerate(others.tolist()):
        expected[position], expected[other] = expected[other], expected[position]
    assert _shuffle.swapped(size, others).tolist() == expected
