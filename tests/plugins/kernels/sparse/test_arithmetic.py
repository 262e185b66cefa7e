"""Sums of a few elements in Python equal those that NumPy computes."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.sparse import arithmetic

pytestmark = pytest.mark.divided

SHAPE = np.array([2, 3, 2])
reduce_sum = arithmetic._reduce(np.add)


def elements(count, dtype):
    random = np.random.default_rng(count)
    indices = np.argwhere(np.ones(SHAPE))[random.integers(0, 12, count)]
    return indices, random.integers(-9, 9, count).astype(dtype) * np.dtype(dtype).type(0.1 + 1)


@pytest.mark.parametrize("count", [0, 1, 2, 5])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64])
@pytest.mark.parametrize("axes", [[], [0], [2], [-1, 0], [0, 1, 2]])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_sums_of_few_equal_those_of_many(count, dtype, axes, keep_dims, monkeypatch):
    indices, values = elements(count, dtype)
    found = reduce_sum(indices, values, SHAPE, np.array(axes, np.int32), keep_dims)
    monkeypatch.setattr(arithmetic, "_MAX_FEW", -1)
    expected = reduce_sum(indices, values, SHAPE, np.array(axes, np.int32), keep_dims)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sums_of_few_wrap_around(dtype):
    largest = np.iinfo(dtype).max
    indices, values = np.array([[0], [0]]), np.array([largest, 1], dtype)
    found = reduce_sum(indices, values, np.array([1]), np.array(0), keep_dims=False)
    assert found == np.iinfo(dtype).min


@pytest.mark.parametrize("index", [-1, 3])
def test_indices_of_few_elements_are_checked(index):
    indices, values = np.array([[0, 0], [0, index]]), np.array([1, 2])
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\]"):
        reduce_sum(indices, values, np.array([1, 3]), np.array([1]), keep_dims=False)
