"""Gradients of sparse tensors. Semantics: tensorflow/python/ops/sparse_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.plugin.gradient_declaration import gradient

if TYPE_CHECKING:
    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.graph.tensor import Tensor


@gradient("SparseToDense")
def sparse_to_dense(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Take the values at the indices; the default gets the rest."""
    indices = op.inputs[0]
    if op.get_attr("validate_indices"):
        taken = array.gather_nd(dy, indices)
        axes = math.range(0, array.rank(dy), 1)
        rest = math.sum(dy, axes) - math.sum(taken, math.range(0, array.rank(taken), 1))
        return [None, None, taken, rest]
    return [None, None, array.gather_nd(dy, indices), None]


@gradient("SparseTensorDenseMatMul")
def sparse_tensor_dense_mat_mul(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Multiply the gathered rows; multiply with the transposed matrix."""
    from graphmill.ops import sparse

    indices, values, shape, dense = op.inputs
    is_a, is_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    by_dense = sparse.sparse_tensor_dense_mat_mul(
        indices, values, shape, dy, adjoint_a=not is_a, adjoint_b=False
    )
    if is_b:
        by_dense = array.transpose(by_dense, [1, 0])
    rows, columns = indices[:, 0], indices[:, 1]
    first = array.gather_v2(dy, columns if is_a else rows, 0)
    matrix = array.transpose(dense, [1, 0]) if is_b else dense
    second = array.gather_v2(matrix, rows if is_a else columns, 0)
    return [None, math.sum(first * second, 1), None, by_dense]
