"""CSR matrices: conversions, components, products and transposes.

Semantics: tensorflow/core/kernels/sparse/*.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text
from graphmill_plugins.kernels.sparse._csr_matrix import (
    CsrMatrix,
    csr_matrix,
    from_indices,
    from_matrices,
)
from graphmill_plugins.kernels.sparse._sparse import check_bounds, check_parts

if TYPE_CHECKING:
    from graphmill.spi import Value

_ELEMENTS: Final = (dtypes.float32, dtypes.float64, dtypes.complex64, dtypes.complex128)
_T: Final = {"T": _ELEMENTS}
_TYPE: Final = {"type": _ELEMENTS}


@kernel("SparseTensorToCSRSparseMatrix", host=True, types=_T)
def sparse_tensor_to_csr_sparse_matrix(
    indices: Value, values: Value, dense_shape: Value
) -> CsrMatrix:
    """Return the CSR matrix of a sparse tensor.

    Raises:
        InvalidArgumentError: the parts do not fit, or indices are out of range or order.
    """
    sizes = check_parts(indices, values, dense_shape)
    check_bounds(indices, sizes)
    return from_indices(sizes, indices, values)


@kernel("DenseToCSRSparseMatrix", host=True, types=_T)
def dense_to_csr_sparse_matrix(dense_input: Value, indices: Value) -> CsrMatrix:
    """Return the CSR matrix of the elements of a dense one at some indices.

    Raises:
        InvalidArgumentError: shapes do not fit, or indices are out of range or order.
    """
    if dense_input.ndim not in (2, 3):
        raise InvalidArgumentError(
            f"dense_input must have rank 2 or 3, got shape {shape_text(dense_input.shape)}"
        )
    if indices.ndim != 2 or indices.shape[1] != dense_input.ndim:
        raise InvalidArgumentError(
            f"indices must have shape [?,{dense_input.ndim}], got {shape_text(indices.shape)}"
        )
    check_bounds(indices, dense_input.shape)
    return from_indices(dense_input.shape, indices, dense_input[tuple(indices.T)])


@kernel("CSRSparseMatrixToSparseTensor", host=True, types=_TYPE)
def csr_sparse_matrix_to_sparse_tensor(
    sparse_matrix: Value,
    type: np.dtype[Any],  # noqa: A002 - the name of the attr
) -> tuple[Value, Value, Value]:
    """Return indices, values and shape.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type.
    """
    matrix = csr_matrix(sparse_matrix, type)
    return matrix.indices(), matrix.values, np.array(matrix.dense_shape, np.int64)


@kernel("CSRSparseMatrixToDense", host=True, types=_TYPE)
def csr_sparse_matrix_to_dense(
    sparse_input: Value,
    type: np.dtype[Any],  # noqa: A002
) -> Value:
    """Return the dense matrix; the last of several values at the same position wins.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type.
        ResourceExhaustedError: the dense matrix does not fit in memory.
    """
    matrix = csr_matrix(sparse_input, type)
    check_size(matrix.dense_shape, "the dense matrix", itemsize=type.itemsize)
    out = np.zeros(matrix.dense_shape, type)
    out[tuple(matrix.indices().T)] = matrix.values
    return out


@kernel("CSRSparseMatrixComponents", host=True, types=_TYPE)
def csr_sparse_matrix_components(
    csr_sparse_matrix: Value,
    index: Value,
    type: np.dtype[Any],  # noqa: A002
) -> tuple[Value, Value, Value]:
    """Return row pointers, columns and values of one matrix of a batch.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type, or the index is out of
            range.
    """
    matrix = csr_matrix(csr_sparse_matrix, type)
    number = scalar_int("index", index)
    if not 0 <= number < matrix.batch:
        raise InvalidArgumentError(f"index = {number} is not in [0, {matrix.batch})")
    return matrix.components(number)


@kernel("SparseMatrixNNZ", host=True)
def sparse_matrix_nnz(sparse_matrix: Value) -> Value:
    """Return the number of stored values, one for each matrix of a batch.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix.
    """
    matrix = csr_matrix(sparse_matrix)
    counts = matrix.row_ptrs[:, -1].copy()
    return counts if len(matrix.dense_shape) == 3 else counts[0]


@kernel("SparseMatrixTranspose", host=True, types=_TYPE)
def sparse_matrix_transpose(
    input: Value,  # noqa: A002 - the name of the input
    conjugate: bool,
    type: np.dtype[Any],  # noqa: A002
) -> CsrMatrix:
    """Return the transposed matrices, with conjugate values if requested.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type.
    """
    matrix = csr_matrix(input, type)
    moved = [_with_flags(one, transpose=True, conjugate=conjugate) for one in matrix.matrices()]
    return from_matrices(_transposed_shape(matrix.dense_shape), moved, type)


def _with_flags(matrix: Any, *, transpose: bool, conjugate: bool) -> Any:
    """Return a matrix, dense or sparse, transposed and conjugated if requested."""
    result = matrix.T if transpose else matrix
    return result.conj() if conjugate else result


def _transposed_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2])


def _check_flags(transpose_a: bool, transpose_b: bool, adjoint_a: bool, adjoint_b: bool) -> None:
    for name, is_both in (("a", transpose_a and adjoint_a), ("b", transpose_b and adjoint_b)):
        if is_both:
            raise InvalidArgumentError(
                f"only one of adjoint_{name} and transpose_{name} may be set"
            )


def _check_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a product of matrices, or of batches of them."""
    if len(a) != len(b) or a[:-2] != b[:-2] or a[-1] != b[-2]:
        raise InvalidArgumentError(
            f"matrices of shapes {shape_text(a)} and {shape_text(b)} cannot be multiplied: ranks, "
            "batches and inner sizes must match"
        )
    return (*a[:-1], b[-1])


@kernel("SparseMatrixMatMul", host=True, expensive=True, types=_T)
def sparse_matrix_mat_mul(
    a: Value,
    b: Value,
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
    transpose_output: bool,
    conjugate_output: bool,
) -> Value:
    """Multiply CSR matrices by dense ones.

    Raises:
        InvalidArgumentError: the variant holds no CSR matrix of the type of `b`, shapes do not fit,
            or an operand is both transposed and adjoint.
    """
    _check_flags(transpose_a, transpose_b, adjoint_a, adjoint_b)
    left = csr_matrix(a, b.dtype)
    transposes_a, transposes_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    shape_a = _transposed_shape(left.dense_shape) if transposes_a else left.dense_shape
    if b.ndim != len(shape_a):
        raise InvalidArgumentError(
            f"a has rank {len(shape_a)}, expected the same rank of b, got shape "
            f"{shape_text(b.shape)}"
        )
    shape = _check_shapes(shape_a, _transposed_shape(b.shape) if transposes_b else b.shape)
    check_size(shape, itemsize=b.dtype.itemsize)
    out = np.empty((left.batch, *shape[-2:]), b.dtype)
    dense = b.reshape(left.batch, *b.shape[-2:])
    for one, other, product in zip(left.matrices(), dense, out, strict=True):
        product[:] = _with_flags(one, transpose=transposes_a, conjugate=adjoint_a) @ _with_flags(
            other, transpose=transposes_b, conjugate=adjoint_b
        )
    if conjugate_output:
        np.conjugate(out, out=out)
    out = out.reshape(shape)
    return np.ascontiguousarray(out.swapaxes(-1, -2)) if transpose_output else out


@kernel("SparseMatrixSparseMatMul", host=True, expensive=True, types=_TYPE)
def sparse_matrix_sparse_mat_mul(
    a: Value,
    b: Value,
    type: np.dtype[Any],  # noqa: A002
    transpose_a: bool,
    transpose_b: bool,
    adjoint_a: bool,
    adjoint_b: bool,
) -> CsrMatrix:
    """Multiply CSR matrices; sums that are zero remain stored values.

    Raises:
        InvalidArgumentError: a variant holds no CSR matrix of the type, shapes do not fit, or an
            operand is both transposed and adjoint.
    """
    _check_flags(transpose_a, transpose_b, adjoint_a, adjoint_b)
    left, right = csr_matrix(a, type), csr_matrix(b, type)
    transposes_a, transposes_b = transpose_a or adjoint_a, transpose_b or adjoint_b
    shape = _check_shapes(
        _transposed_shape(left.dense_shape) if transposes_a else left.dense_shape,
        _transposed_shape(right.dense_shape) if transposes_b else right.dense_shape,
    )
    products = [
        _product(
            _with_flags(one, transpose=transposes_a, conjugate=adjoint_a),
            _with_flags(other, transpose=transposes_b, conjugate=adjoint_b),
        )
        for one, other in zip(left.matrices(), right.matrices(), strict=True)
    ]
    return from_matrices(shape, products, type)


def _product(a: Any, b: Any) -> Any:
    """Multiply two SciPy matrices; unlike in SciPy, sums that are zero remain stored."""
    product, stored = (a @ b).tocsr(), (_ones(a) @ _ones(b)).tocsr()
    if stored.nnz == product.nnz:
        return product
    stored.sort_indices()
    product.sort_indices()
    values = np.zeros(stored.nnz, product.dtype)
    values[np.searchsorted(_positions(stored), _positions(product))] = product.data
    stored.data = values
    return stored


def _ones(matrix: Any) -> Any:
    """Return a matrix of SciPy with ones at the stored positions."""
    ones = matrix.copy()
    ones.data = np.ones(matrix.nnz, np.float32)  # sums of these never overflow to zero
    return ones


def _positions(matrix: Any) -> Any:
    """Return the flat position of each value in the dense matrix."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices
