"""Batched swaps equal sequential swaps."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.random import _shuffle


@pytest.mark.parametrize("size", [2, 3, 100, 5000])
@pytest.mark.parametrize("few", [1, 50])
def test_runs_exchange_as_one_by_one(size, few, monkeypatch):
    monkeypatch.setattr(_shuffle, "_FEW", few)
    monkeypatch.setattr(_shuffle, "_SHARE", 4)  # many places are shared
    others = np.arange(size - 1) + np.random.default_rng(size).integers(
        0, size - np.arange(size - 1)
    )
    want = list(range(size))
    for place, other in enumerate(others.tolist()):
        want[place], want[other] = want[other], want[place]
    assert _shuffle.exchanged(size, others).tolist() == want
