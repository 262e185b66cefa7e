"""Index rows are sorted by column, stably."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.sparse._sparse import order_of


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("most", [3, 1000, 2**61])
@pytest.mark.parametrize("least", [0, -2])
def test_order_is_numpy_s(rank, most, least):
    indices = np.random.default_rng(rank).integers(least, most, (200, rank))
    expected = np.lexsort(indices.T[::-1])
    assert order_of(indices).tolist() == expected.tolist()
    assert order_of(indices[expected]).tolist() == list(range(200))


def test_empty_indices_are_in_order():
    assert order_of(np.zeros((0, 2), np.int64)).tolist() == []
    assert order_of(np.zeros((3, 0), np.int64)).tolist() == [0, 1, 2]
