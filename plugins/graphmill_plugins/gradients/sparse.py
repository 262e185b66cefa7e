"""Gradients of sparse tensors. Semantics: tensorflow/python/ops/sparse_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, sparse
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import conj, shaped_as

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable("SparseAddGrad", "SparseConcat")


@gradient("SparseToDense")
def sparse_to_dense(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradient at the indices; the default value gets the sum of the rest."""
    taken = array.gather_nd(dy, op.inputs[0])
    axes = math.range(0, array.rank(dy), 1)
    rest = math.sum(dy, axes) - math.sum(taken, math.range(0, array.rank(taken), 1))
    by_values = shaped_as(op, (op.inputs[2], taken), (taken, taken))[0]
    return [None, None, by_values, rest]


@gradient("SparseTensorDenseMatMul")
def sparse_tensor_dense_mat_mul(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Multiply gathered rows for the values, and the transposed matrix for the dense input."""
    indices, values, shape, dense = op.inputs
    is_a, is_b = op.get_attr("adjoint_a"), op.get_attr("adjoint_b")
    by_dense = sparse.sparse_tensor_dense_mat_mul(
        indices, values, shape, dy, adjoint_a=not is_a, adjoint_b=False
    )
    if is_b:
        by_dense = conj(array.transpose(by_dense, [1, 0]))
    rows, columns = indices[:, 0], indices[:, 1]
    first = array.gather_v2(dy, columns if is_a else rows, 0)
    matrix = array.transpose(dense, [1, 0]) if is_b else conj(dense)
    second = array.gather_v2(matrix, rows if is_a else columns, 0)
    by_values = math.sum(first * second, 1)
    return [None, conj(by_values) if is_a else by_values, None, by_dense]


@gradient("SparseReorder")
def sparse_reorder(op: ForwardOp, _: Any, dy: Tensor | None) -> list[Any]:
    """Restore the original order of the values."""
    if dy is None:
        return [None, None, None]
    indices, _, shape = op.inputs
    count = array.shape(indices)[0]
    order = sparse.sparse_reorder(indices, math.range(0, count, 1), shape).output_values
    return [None, array.gather_v2(dy, array.invert_permutation(order), 0), None]


@gradient("SparseFillEmptyRows")
def sparse_fill_empty_rows(op: ForwardOp, *dys: Any) -> list[Any]:
    """Gather the gradient of the values; the default value gets the sum of the rest."""
    dy = dys[1]
    if dy is None:
        return [None] * 4
    gradients = sparse.sparse_fill_empty_rows_grad(op.outputs[3], dy)
    return [None, gradients.d_values, None, gradients.d_default_value]


@gradient("SparseAdd")
def sparse_add(op: ForwardOp, _: Any, dy: Tensor | None, _shape: Any) -> list[Any]:
    """Gather for each value the gradient of the sum at its index."""
    if dy is None:
        return [None] * 7
    gradients = sparse.sparse_add_grad(dy, op.inputs[0], op.inputs[3], op.outputs[0])
    return [None, gradients.a_val_grad, None, None, gradients.b_val_grad, None, None]


@gradient("SparseSlice")
def sparse_slice(op: ForwardOp, _: Any, dy: Tensor | None, _shape: Any) -> list[Any]:
    """Pass the gradient to the values inside the slice, zero to the others."""
    if dy is None:
        return [None] * 5
    d_values = sparse.sparse_slice_grad(dy, op.inputs[0], op.inputs[3], op.outputs[0])
    return [None, d_values, None, None, None]


@gradient("SparseSoftmax")
def sparse_softmax(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Return (dy - Σ dy y) y, the sum over the elements of a row."""
    indices, _, shape = op.inputs
    y = op.outputs[0]
    sums = sparse.sparse_reduce_sum(indices, dy * y, shape, [-1], keep_dims=True)
    rows = math.floor_mod(indices, math.cast(array.shape(sums), DstT="int64"))
    return [None, (dy - array.gather_nd(sums, rows)) * y, None]


@gradient("SparseTensorDenseAdd")
def sparse_tensor_dense_add(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradient at the indices."""
    return [None, array.gather_nd(dy, op.inputs[0]), None, dy]


@gradient("SparseReduceSum")
def sparse_reduce_sum(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather for each value the gradient of its sum."""
    indices, _, shape, axes = op.inputs
    rank = array.size(shape)
    axes = math.floor_mod(math.cast(array.reshape(axes, [-1]), DstT="int32") + rank, rank)
    ones = array.fill(array.shape(axes), op.graph.constant(1, shape.dtype.base_dtype))
    kept_shape = array.tensor_scatter_update(shape, array.expand_dims(axes, 1), ones)
    positions = math.floor_mod(indices, kept_shape)
    return [None, array.gather_nd(array.reshape(dy, kept_shape), positions), None, None]


@gradient("SparseDenseCwiseMul", "SparseDenseCwiseDiv")
def sparse_dense(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Multiply or divide by the dense elements at the indices; sum over repeated uses."""
    indices, values, shape, dense = op.inputs
    whole = array.concat_v2(
        [
            array.fill(array.expand_dims(array.size(shape) - array.rank(dense), 0), 1),
            array.shape(dense),
        ],
        0,
    )
    positions = math.floor_mod(indices, math.cast(whole, DstT="int64"))
    entries = array.gather_nd(array.reshape(dense, whole), positions)
    if op.type.endswith("Mul"):
        by_values, by_found = dy * entries, dy * values
    else:
        by_values, by_found = dy / entries, dy * (-values / math.square(entries))
    by_dense = array.scatter_nd(positions, by_found, math.cast(whole, DstT="int64"))
    return [None, by_values, None, array.reshape(by_dense, op.shape(dense))]
