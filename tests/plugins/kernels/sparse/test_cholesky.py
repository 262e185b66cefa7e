"""Cholesky factors of CSR matrices: fill-in, bad permutations; op cases cover the rest."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.sparse._csr_matrix import from_indices
from graphmill_plugins.kernels.sparse.cholesky import (
    sparse_matrix_ordering_amd,
    sparse_matrix_sparse_cholesky,
)

pytest.importorskip("scipy")
FLOAT = np.dtype(np.float64)


def csr(dense):
    indices = np.argwhere(dense)
    return from_indices(dense.shape, indices, dense[tuple(indices.T)])


def arrow(size):
    dense = np.eye(size) * size
    dense[0], dense[:, 0] = 1, 1
    dense[0, 0] = size
    return dense


def dense_of(matrix):
    made = np.zeros(matrix.dense_shape)
    made[tuple(matrix.indices().T)] = matrix.values
    return made


def test_ordering_avoids_fill_in():
    matrix = csr(arrow(6))
    filled = sparse_matrix_sparse_cholesky(matrix, np.arange(6), FLOAT)
    order = sparse_matrix_ordering_amd(matrix)
    assert len(filled.values) == 21
    assert len(sparse_matrix_sparse_cholesky(matrix, order, FLOAT).values) == 11


@pytest.mark.parametrize("seed", range(5))
def test_factor_of_random_matrix_is_that_of_numpy(seed):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(9, 9)) * (rng.random((9, 9)) < 0.2)
    dense = half @ half.T + np.eye(9)
    order = sparse_matrix_ordering_amd(csr(dense))
    factor = sparse_matrix_sparse_cholesky(csr(dense), order, FLOAT)
    expected = np.linalg.cholesky(dense[np.ix_(order, order)])
    np.testing.assert_allclose(dense_of(factor), expected, atol=1e-12)


def test_upper_triangle_is_not_read():
    dense = arrow(4)
    lower = sparse_matrix_sparse_cholesky(csr(np.tril(dense)), np.arange(4), FLOAT)
    whole = sparse_matrix_sparse_cholesky(csr(dense), np.arange(4), FLOAT)
    np.testing.assert_array_equal(lower.values, whole.values)


@pytest.mark.parametrize("order", [[0, 0, 1], [0, 1, 3], [-1, 0, 1]])
def test_permutation_that_repeats_or_exceeds_is_refused(order):
    with pytest.raises(InvalidArgumentError, match="each number below 3 once"):
        sparse_matrix_sparse_cholesky(csr(arrow(3)), np.array(order, np.int32), FLOAT)


def test_empty_matrix_has_an_empty_factor():
    empty = csr(np.zeros((0, 0)))
    order = sparse_matrix_ordering_amd(empty)
    assert sparse_matrix_sparse_cholesky(empty, order, FLOAT).dense_shape == (0, 0)
