"""Gradients of CSR matrices: CSR matrices with the sparsity pattern of the differentiated ones.

Semantics: tensorflow/python/ops/linalg/sparse/sparse_csr_matrix_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, sparse
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import as_dense, conj, const

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable("SparseMatrixNNZ")


@gradient("DenseToCSRSparseMatrix")
def dense_to_csr_sparse_matrix(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Return the dense matrix of the gradient."""
    return [sparse.csr_sparse_matrix_to_dense(dy, type=op.inputs[0].dtype), None]


@gradient("CSRSparseMatrixToDense")
def csr_sparse_matrix_to_dense(op: ForwardOp, dy: Any) -> Tensor:
    """Gather the gradient at the positions of the values."""
    dense_dy = as_dense(dy)
    parts = sparse.csr_sparse_matrix_to_sparse_tensor(op.inputs[0], type=dense_dy.dtype)
    values = array.gather_nd(dense_dy, parts.indices)
    return sparse.sparse_tensor_to_csr_sparse_matrix(parts.indices, values, parts.dense_shape)


@gradient("SparseTensorToCSRSparseMatrix")
def sparse_tensor_to_csr_sparse_matrix(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Return the values of the gradient."""
    triples = sparse.csr_sparse_matrix_to_sparse_tensor(dy, type=op.inputs[1].dtype)
    return [None, triples.values, None]


@gradient("CSRSparseMatrixToSparseTensor")
def csr_sparse_matrix_to_sparse_tensor(
    op: ForwardOp, _: Any, dy: Tensor | None, _shape: Any
) -> Tensor | None:
    """Return the CSR matrix of the gradient's values."""
    if dy is None:
        return None
    return sparse.sparse_tensor_to_csr_sparse_matrix(op.outputs[0], dy, op.outputs[2])


@gradient("SparseMatrixTranspose")
def sparse_matrix_transpose(op: ForwardOp, dy: Tensor) -> Tensor:
    """Transpose the gradient back."""
    return sparse.sparse_matrix_transpose(
        dy, conjugate=op.get_attr("conjugate"), type=op.get_attr("type")
    )


@gradient("SparseMatrixMatMul")
def sparse_matrix_mat_mul(op: ForwardOp, dy: Any) -> list[Any]:
    """Multiply rows for each value of the CSR matrix, and its adjoint for the dense one."""
    a, b = op.inputs
    grad = as_dense(dy)
    grad = conj(grad) if op.get_attr("conjugate_output") else grad
    grad = _transposed(grad) if op.get_attr("transpose_output") else grad
    return [_by_csr(op, a, b, grad), _by_dense(op, a, grad)]


def _by_csr(op: ForwardOp, a: Tensor, b: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of the CSR matrix, only at the positions of its values."""
    parts = sparse.csr_sparse_matrix_to_sparse_tensor(a, type=b.dtype)
    indices = parts.indices
    rows, columns = indices[:, :-1], array.concat_v2([indices[:, :-2], indices[:, -1:]], 1)
    is_adjoint = op.get_attr("adjoint_a")
    if op.get_attr("transpose_a") or is_adjoint:
        rows, columns = columns, rows
    if op.get_attr("adjoint_b"):
        factor = _transposed(b)  # the conjugate of the second factor
    else:
        factor = conj(_transposed(b) if op.get_attr("transpose_b") else b)
    values = math.sum(array.gather_nd(grad, rows) * array.gather_nd(factor, columns), 1)
    values = conj(values) if is_adjoint else values
    return sparse.sparse_tensor_to_csr_sparse_matrix(indices, values, parts.dense_shape)


def _by_dense(op: ForwardOp, a: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient of the dense matrix."""
    if op.get_attr("transpose_a"):  # multiply by the conjugate matrix
        product = conj(sparse.sparse_matrix_mat_mul(a, conj(grad)))
    else:
        product = sparse.sparse_matrix_mat_mul(a, grad, adjoint_a=not op.get_attr("adjoint_a"))
    if op.get_attr("transpose_b"):
        return _transposed(product)
    return conj(_transposed(product)) if op.get_attr("adjoint_b") else product


def _transposed(matrix: Tensor) -> Tensor:
    """Transpose a dense matrix, or each of a batch."""
    rank = array.rank(matrix)
    order = array.concat_v2([math.range(0, rank - 2, 1), array.pack([rank - 1, rank - 2])], 0)
    return array.transpose(matrix, order)


@gradient("SparseMatrixSparseMatMul")
def sparse_matrix_sparse_mat_mul(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Multiply by the adjoint of the other matrix; keep only the positions of the factor."""
    kind = op.get_attr("type")
    a, b = (_oriented(op, tensor, which) for tensor, which in zip(op.inputs, "ab", strict=True))
    by_a = sparse.sparse_matrix_sparse_mat_mul(dy, b, adjoint_b=True, type=kind)
    by_b = sparse.sparse_matrix_sparse_mat_mul(a, dy, adjoint_a=True, type=kind)
    return [
        _pruned(_oriented(op, product, which), tensor, kind)
        for product, tensor, which in zip((by_a, by_b), op.inputs, "ab", strict=True)
    ]


def _oriented(op: ForwardOp, matrix: Tensor, which: str) -> Tensor:
    """Transpose a CSR matrix like operand `which` of the product; this is its own inverse."""
    is_adjoint = op.get_attr(f"adjoint_{which}")
    if not is_adjoint and not op.get_attr(f"transpose_{which}"):
        return matrix
    return sparse.sparse_matrix_transpose(matrix, conjugate=is_adjoint, type=op.get_attr("type"))


def _pruned(matrix: Tensor, pattern: Tensor, kind: Any) -> Tensor:
    """Return the values of a CSR matrix at the positions of another one, zero where it has none."""
    triples = sparse.csr_sparse_matrix_to_sparse_tensor(matrix, type=kind)
    expected = sparse.csr_sparse_matrix_to_sparse_tensor(pattern, type=kind)
    stored, requested = (
        _positions(part.indices, expected.dense_shape) for part in (triples, expected)
    )
    nearest = array.lower_bound(
        array.expand_dims(stored, 0), array.expand_dims(requested, 0), out_type="int32"
    )[0]
    stored = array.concat_v2([stored, const(stored, [-1])], 0)  # for places behind the last one
    values = array.concat_v2([triples.values, const(triples.values, [0])], 0)
    is_stored = math.equal(array.gather(stored, nearest), requested)
    entries = array.gather(values, nearest)
    values = math.select(is_stored, entries, array.zeros_like(entries))
    return sparse.sparse_tensor_to_csr_sparse_matrix(expected.indices, values, expected.dense_shape)


def _positions(indices: Tensor, shape: Tensor) -> Tensor:
    """Return the flat position of each index in the dense tensor."""
    steps = math.cumprod(shape, 0, exclusive=True, reverse=True)
    return math.sum(indices * steps, 1)
