"""Cholesky factors of CSR matrices, and orderings of their rows that keep them sparse.

Semantics: tensorflow/core/kernels/sparse/{sparse_cholesky_op,sparse_ordering_amd_op}.cc. Only the
lower triangle of a matrix is read.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._optional import import_optional
from graphmill_plugins.kernels.sparse._csr_matrix import CsrMatrix, csr_matrix, from_matrices

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("SparseMatrixOrderingAMD", host=True)
def sparse_matrix_ordering_amd(input: Value) -> Value:  # noqa: A002 - the name of the input
    """Return an order of the rows of each matrix in which its Cholesky factor has few values.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix, or its matrices are not square.
    """
    matrix = csr_matrix(input)
    rows = _square(matrix)
    orders = [_by_minimum_degree(_neighbours(*matrix.components(b))) for b in range(matrix.batch)]
    result = np.array(orders, np.int32).reshape(matrix.batch, rows)
    return result if len(matrix.dense_shape) == 3 else result[0]


@kernel(
    "SparseMatrixSparseCholesky",
    host=True,
    expensive=True,
    types={"type": (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)},
)
def sparse_matrix_sparse_cholesky(
    input: Value,  # noqa: A002 - the name of the input
    permutation: Value,
    type: np.dtype[Any],  # noqa: A002 - the name of the attr
) -> CsrMatrix:
    """Return the lower Cholesky factor of each matrix, with its rows in the given order.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type, shapes do not fit, the
            permutation is invalid, or a matrix is not positive definite.
    """
    matrix = csr_matrix(input, type)
    orders = _orders(matrix, permutation)
    factors = []
    for index, order in enumerate(orders):
        factor = _factor(_permuted(matrix, index, order), type)
        if factor is None:
            raise InvalidArgumentError(
                f"Sparse Cholesky factorization failed for batch index {index}. The input might "
                "not be valid."
            )
        factors.append(factor)
    return from_matrices(matrix.dense_shape, factors, type)


def _square(matrix: CsrMatrix) -> int:
    rows, columns = matrix.dense_shape[-2:]
    if rows != columns:
        raise InvalidArgumentError(f"sparse matrix must be square; got: {rows} != {columns}")
    return rows


def _orders(matrix: CsrMatrix, permutation: Value) -> Any:
    """Return the order of the rows of each matrix."""
    rows, rank = _square(matrix), len(matrix.dense_shape)
    if permutation.ndim + 1 != rank:
        raise InvalidArgumentError(
            f"sparse matrix must have the same rank as permutation; got: {rank} != "
            f"{permutation.ndim} + 1."
        )
    if permutation.shape[-1] != rows:
        raise InvalidArgumentError(
            "permutation must have the same number of elements in each batch as the number of "
            f"rows in sparse matrix; got: {permutation.shape[-1]} != {rows}"
        )
    if rank == 3 and permutation.shape[0] != matrix.batch:
        raise InvalidArgumentError(
            "permutation must have the same batch size as sparse matrix; got: "
            f"{permutation.shape[0]} != {matrix.batch}"
        )
    orders = permutation.reshape(matrix.batch, rows)
    if (np.sort(orders, axis=1) != np.arange(rows)).any():
        raise InvalidArgumentError(f"permutation must contain each number below {rows} once")
    return orders


def _neighbours(row_ptrs: Any, columns: Any, values: Any) -> list[set[int]]:
    """Return the columns below the diagonal of each row, and the rows that refer to it."""
    del values
    rows = np.repeat(np.arange(len(row_ptrs) - 1), np.diff(row_ptrs))
    neighbours: list[set[int]] = [set() for _ in range(len(row_ptrs) - 1)]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        if column < row:
            neighbours[row].add(column)
            neighbours[column].add(row)
    return neighbours


def _by_minimum_degree(neighbours: list[set[int]]) -> list[int]:
    """Repeatedly eliminate a row with the fewest neighbours, and connect its neighbours."""
    left = [(len(near), row) for row, near in enumerate(neighbours)]
    heapify(left)
    order: list[int] = []
    is_done = [False] * len(neighbours)
    while left:
        degree, row = heappop(left)
        if is_done[row] or degree != len(neighbours[row]):
            continue  # its degree has changed, so it is in the heap again
        is_done[row] = True
        order.append(row)
        for other in neighbours[row]:
            neighbours[other] |= neighbours[row]
            neighbours[other] -= {other, row}
            heappush(left, (len(neighbours[other]), other))
        neighbours[row] = set()
    return order


def _permuted(matrix: CsrMatrix, index: int, order: Any) -> Any:
    """Return the lower triangle of a Hermitian matrix, by columns, with its rows in some order."""
    sparse: Any = import_optional("scipy.sparse")
    row_ptrs, columns, values = matrix.components(index)
    size = len(order)
    rows = np.repeat(np.arange(size), np.diff(row_ptrs))
    is_lower = columns <= rows
    rows, columns, values = rows[is_lower], columns[is_lower], values[is_lower]
    position = np.empty(size, np.int64)
    position[order] = np.arange(size)
    rows, columns = position[rows], position[columns]
    is_above = rows < columns
    values = np.where(is_above, np.conj(values), values)
    rows, columns = np.where(is_above, columns, rows), np.where(is_above, rows, columns)
    permuted = sparse.coo_array((values, (rows, columns)), shape=(size, size)).tocsc()
    permuted.sort_indices()
    return permuted


def _factor(lower: Any, dtype: np.dtype[Any]) -> Any:
    """Return the Cholesky factor of a matrix, given the columns of its lower triangle.

    It is None if the matrix is not positive definite. Each column takes the multiples of the
    earlier ones that have a value in its row.
    """
    sparse: Any = import_optional("scipy.sparse")
    size = lower.shape[0]
    pattern = _pattern(lower)
    columns: list[Any] = []
    earlier: list[list[tuple[int, int]]] = [[] for _ in range(size)]  # by row: column, position
    work = np.zeros(size, dtype)
    with np.errstate(all="ignore"):
        for column, rows in enumerate(pattern):
            part = slice(lower.indptr[column], lower.indptr[column + 1])
            work[lower.indices[part]] = lower.data[part]
            for other, start in earlier[column]:
                values = columns[other]
                work[pattern[other][start:]] -= values[start:] * np.conj(values[start])
            pivot = work[column].real
            if not pivot > 0:
                return None
            column_values = work[rows] / np.sqrt(pivot)
            column_values[0] = np.sqrt(pivot)
            columns.append(column_values)
            work[rows] = 0
            for start, row in enumerate(rows[1:].tolist(), 1):
                earlier[row].append((column, start))
    indptr = np.cumsum([0, *map(len, pattern)])
    empty = np.zeros(0, np.int64)
    parts = np.concatenate([empty, *pattern]), np.concatenate([np.zeros(0, dtype), *columns])
    return sparse.csc_array((parts[1], parts[0], indptr), shape=lower.shape)


def _pattern(lower: Any) -> list[Any]:
    """Return the rows of the values in each column of the factor, the diagonal first."""
    size = lower.shape[0]
    pattern: list[Any] = []
    children: list[list[int]] = [[] for _ in range(size)]
    for column in range(size):
        own = lower.indices[lower.indptr[column] : lower.indptr[column + 1]]
        inherited = [pattern[child][1:] for child in children[column]]
        rows = np.unique(np.concatenate([np.array([column]), own, *inherited]))
        pattern.append(rows.astype(np.int64))
        if len(rows) > 1:
            children[int(rows[1])].append(column)
    return pattern
