"""CSR matrices in variants: compressed sparse rows, one matrix or a batch of them.

Semantics: tensorflow/core/kernels/sparse/sparse_matrix.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins._optional import import_optional
from graphmill_plugins.kernels._support import INT32_MAX, check_size, shape_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import ArrayNamespace, Value


@dataclass(frozen=True, slots=True, eq=False)
class CsrMatrix:
    """A CSR matrix, or a batch of them, in a scalar of dtype variant.

    Attributes:
        dense_shape: (rows, columns), or (batch, rows, columns).
        row_ptrs: int32 (batch, rows + 1); row r of matrix b has the values from `row_ptrs[b, r]` to
            `row_ptrs[b, r + 1]`, counted from the start of the matrix.
        starts: where the values of each matrix start, and their number at the end.
        columns: the column of each value, int32.
        values: the values of all matrices, row by row.
    """

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0

    dense_shape: tuple[int, ...]
    row_ptrs: Any
    starts: Any
    columns: Any
    values: Any

    def __repr__(self) -> str:
        return f"a CSR matrix of shape {shape_text(self.dense_shape)}"

    @property
    def batch(self) -> int:
        """The number of matrices."""
        return self.dense_shape[0] if len(self.dense_shape) == 3 else 1

    def components(self, index: int) -> tuple[Any, Any, Any]:
        """Return row pointers, columns and values of one matrix."""
        part = slice(int(self.starts[index]), int(self.starts[index + 1]))
        return self.row_ptrs[index], self.columns[part], self.values[part]

    def indices(self) -> Any:
        """Return the indices (count, rank) of the values as int64."""
        rows = self.dense_shape[-2]
        lengths = np.diff(self.row_ptrs, axis=1).reshape(-1)
        flat = np.repeat(np.arange(self.batch * rows), lengths)
        columns = self.columns.astype(np.int64)
        if len(self.dense_shape) == 2:
            return np.stack([flat, columns], axis=1)
        return np.stack([flat // max(rows, 1), flat % max(rows, 1), columns], axis=1)

    def matrices(self) -> list[Any]:
        """Return each matrix as an array of SciPy."""
        sparse: Any = import_optional("scipy.sparse")
        result = []
        for index in range(self.batch):
            row_ptrs, columns, values = self.components(index)
            result.append(
                sparse.csr_array((values, columns, row_ptrs), shape=self.dense_shape[-2:])
            )
        return result

    def zeros_like(self, xp: ArrayNamespace) -> CsrMatrix:
        """Return zeros at the same positions."""
        zeros = xp.zeros_like(self.values)
        return CsrMatrix(self.dense_shape, self.row_ptrs, self.starts, self.columns, zeros)

    def add(self, xp: ArrayNamespace, other: Any) -> CsrMatrix:
        """Return the sum; both must have the same shape and element type."""
        del xp
        if not isinstance(other, CsrMatrix) or other.dense_shape != self.dense_shape:
            raise InvalidArgumentError(f"{self!r} cannot be added to {other!r}")
        check_type(other, self.values.dtype)
        sums = [a + b for a, b in zip(self.matrices(), other.matrices(), strict=True)]
        return from_matrices(self.dense_shape, sums, self.values.dtype)


def csr_matrix(value: Value, dtype: np.dtype[Any] | None = None) -> CsrMatrix:
    """Return the CSR matrix in a variant.

    Args:
        value: the variant.
        dtype: the element type that the matrix must have, if any.

    Raises:
        InvalidArgumentError: it holds something else, or has another element type.
    """
    if not isinstance(value, CsrMatrix):
        raise InvalidArgumentError(f"expected a variant with a CSR matrix, got {value!r}")
    if dtype is not None:
        check_type(value, dtype)
    return value


def check_type(matrix: CsrMatrix, dtype: np.dtype[Any]) -> None:
    """Raise InvalidArgumentError unless a matrix has the element type."""
    if matrix.values.dtype != dtype:
        raise InvalidArgumentError(
            f"expected a CSR matrix of {dtype.name}, got one of {matrix.values.dtype.name}"
        )


def from_indices(dense_shape: tuple[int, ...], indices: Value, values: Value) -> CsrMatrix:
    """Return the CSR matrix of values at indices that are within the shape.

    Raises:
        InvalidArgumentError: the rank is not 2 or 3, the rows are not in ascending order, or there
            are more rows or values than 32 bits can count.
    """
    rank = len(dense_shape)
    if rank not in (2, 3):
        raise InvalidArgumentError(f"a CSR matrix has rank 2 or 3, got rank {rank}")
    rows, batch = dense_shape[-2], dense_shape[0] if rank == 3 else 1
    if (rows + 1) * batch > INT32_MAX or len(values) > INT32_MAX or batch >= INT32_MAX:
        raise InvalidArgumentError(
            f"a CSR matrix of shape {shape_text(dense_shape)} with {len(values)} values has more "
            "rows or values than 32 bits can count"
        )
    check_size((batch, rows + 1), "the row pointers", itemsize=12)  # and the counts of values
    flat = indices[:, -2] + (indices[:, 0] * rows if rank == 3 else 0)
    if (flat[1:] < flat[:-1]).any():
        raise InvalidArgumentError("the indices of a CSR matrix must be in row-major order")
    counts = np.bincount(flat, minlength=batch * rows).reshape(batch, rows)
    row_ptrs = np.zeros((batch, rows + 1), np.int32)
    np.cumsum(counts, axis=1, out=row_ptrs[:, 1:])
    starts = np.concatenate([[0], np.cumsum(row_ptrs[:, -1], dtype=np.int64)])
    return CsrMatrix(dense_shape, row_ptrs, starts, indices[:, -1].astype(np.int32), values)


def from_matrices(
    dense_shape: tuple[int, ...], matrices: Iterable[Any], dtype: np.dtype[Any]
) -> CsrMatrix:
    """Return the batch of some sparse arrays of SciPy."""
    parts = [matrix.tocsr() for matrix in matrices]
    for part in parts:
        part.sort_indices()
    rows = dense_shape[-2]
    row_ptrs = np.array([part.indptr for part in parts], np.int32).reshape(len(parts), rows + 1)
    starts = np.concatenate([[0], np.cumsum(row_ptrs[:, -1], dtype=np.int64)])
    columns = [np.zeros(0, np.int32), *(part.indices for part in parts)]
    values = [np.zeros(0, dtype), *(part.data for part in parts)]
    return CsrMatrix(
        dense_shape,
        row_ptrs,
        starts,
        np.concatenate(columns).astype(np.int32, copy=False),
        np.concatenate(values).astype(dtype, copy=False),
    )
