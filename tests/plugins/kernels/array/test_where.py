"""Indices from flat positions equal those that NumPy finds by axis."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.array.unique import where


@pytest.mark.parametrize(
    "shape", [(40, 5), (3, 4, 5, 6), (100, 1), (1, 100), (200,), (64, 0), (3, 5)]
)
def test_indices_are_numpy_s(shape):
    mask = np.random.default_rng(0).random(shape) < 0.4
    found = where(mask)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.argwhere(mask))
