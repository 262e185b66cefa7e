"""Triangular systems are solved row by row as far as their results show."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill_plugins.kernels.linalg.solve import matrix_triangular_solve

SIZE = 5
SPECIAL = (0.0, np.inf, -np.inf, np.nan)


def rows_solved(matrix: Any, rhs: Any, lower: bool) -> Any:
    """Solve one system row by row, with the entries that a row needs only."""
    result = np.zeros_like(rhs)
    with np.errstate(all="ignore"):
        for row in range(SIZE) if lower else reversed(range(SIZE)):
            others = range(row) if lower else range(row + 1, SIZE)
            known = sum((matrix[row, i] * result[i] for i in others), np.zeros_like(rhs[0]))
            result[row] = (rhs[row] - known) / matrix[row, row]
    return result


@settings(max_examples=200)
@given(
    seed=st.integers(0, 1 << 16),
    lower=st.booleans(),
    adjoint=st.booleans(),
    diagonal=st.lists(st.tuples(st.integers(0, SIZE - 1), st.sampled_from(SPECIAL)), max_size=2),
    values=st.lists(st.tuples(st.integers(0, SIZE - 1), st.sampled_from(SPECIAL)), max_size=2),
)
def test_singular_and_infinite_systems(
    seed: int, lower: bool, adjoint: bool, diagonal: Any, values: Any
) -> None:
    drawn = np.random.default_rng(seed)
    matrix = drawn.normal(size=(SIZE, SIZE)) + 2 * np.eye(SIZE)
    rhs = drawn.normal(size=(SIZE, 2))
    for row, value in diagonal:
        matrix[row, row] = value
    for row, value in values:
        rhs[row, 0] = value
    with np.errstate(all="ignore"):
        result = matrix_triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint)
    triangle = matrix.T if adjoint else matrix
    expected = rows_solved(triangle, rhs, lower is not adjoint)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_zero_on_the_diagonal_leaves_the_rows_before_it(dtype: str) -> None:
    matrix = np.array([[[0.5, 0, 0], [4, 3, 0], [9, 0.3, 0]], np.eye(3)], dtype)
    rhs = np.ones((2, 3, 1), dtype)
    with np.errstate(all="ignore"):
        result = matrix_triangular_solve(matrix, rhs, lower=True, adjoint=False)
    np.testing.assert_allclose(result[0, :2, 0], [2, -7 / 3], rtol=1e-6)
    assert not np.isfinite(result[0, 2, 0])
    assert result[1].ravel().tolist() == [1, 1, 1]
