"""Shapes of ops of sparse tensors.

Semantics: tensorflow/core/ops/sparse_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size


def sparse(indices: TensorShape, shape: TensorShape) -> list[TensorShape]:
    """Return the shapes of indices, values and shape of a sparse tensor with unknown elements."""
    return [TensorShape((None, indices[1])), TensorShape((None,)), shape.with_rank(1)]


def added(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `SparseAdd`."""
    shape = op.shape("a_shape").with_rank(1)
    return sparse(TensorShape((None, shape[0])), shape)


def concatenated(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `SparseConcat`."""
    count = op.get_attr("N")
    indices = [shape.with_rank(2) for shape in op.inputs[:count]]
    rank, shape = TensorShape((None,)), TensorShape((None,))
    for one, values in zip(indices, op.inputs[count : 2 * count], strict=True):
        merged_size(one[0], values.with_rank(1)[0])
    for one, sizes in zip(indices, op.inputs[2 * count :], strict=True):
        rank, shape = rank.merge_with((one[1],)), shape.merge_with(sizes.with_rank(1))
    rows = [one[0] for one in indices]
    total = None if None in rows else sum(rows)  # type: ignore[arg-type]
    return [TensorShape((total, rank[0])), TensorShape((total,)), shape]


def dense_set_operation(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `DenseToDenseSetOperation`."""
    return _set_of(op.inputs[0].rank if op.inputs[0].rank is not None else op.inputs[1].rank)


def mixed_set_operation(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `DenseToSparseSetOperation`."""
    count = _rank_of(*op.inputs[1:])
    return _set_of(merged_size(op.inputs[0].rank, count))


def sparse_set_operation(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `SparseToSparseSetOperation`."""
    rank = merged_size(_rank_of(*op.inputs[:3]), _rank_of(*op.inputs[3:]))
    if rank is not None and rank < 2:
        raise InvalidArgumentError(f"Input 0, expected rank >= 2, got {rank}.")
    return _set_of(rank)


def _rank_of(indices: TensorShape, values: TensorShape, shape: TensorShape) -> Size:
    """Return the number of sizes of a sparse tensor, after a check of its parts."""
    merged_size(indices.with_rank(2)[0], values.with_rank(1)[0])
    merged_size(indices.with_rank(2)[1], shape.with_rank(1)[0])
    return shape.with_rank(1)[0]


def _set_of(rank: Size) -> list[TensorShape]:
    return [TensorShape((None, rank)), TensorShape((None,)), TensorShape((rank,))]


def reduced(op: ShapeContext) -> TensorShape:
    """Return the shape of `SparseReduceSum` and `SparseReduceMax`."""
    shape, axes = op.value_as_shape("input_shape"), common.integers(op, "reduction_axes")
    if shape.dims is None or axes is None:
        return UNKNOWN_SHAPE
    chosen = {common.axis_in(axis, len(shape.dims)) for axis in axes}
    if op.get_attr("keep_dims"):
        return TensorShape(1 if axis in chosen else n for axis, n in enumerate(shape.dims))
    return TensorShape(n for axis, n in enumerate(shape.dims) if axis not in chosen)


def dense_product(op: ShapeContext) -> TensorShape:
    """Return the shape of `SparseTensorDenseMatMul`."""
    a, b = op.value_as_shape("a_shape").with_rank(2), op.shape("b").with_rank(2)
    rows, inner = reversed(list(a)) if op.get_attr("adjoint_a") else a
    other, columns = reversed(list(b)) if op.get_attr("adjoint_b") else b
    merged_size(inner, other)
    return TensorShape((rows, columns))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("DenseToDenseSetOperation", dense_set_operation),
    ("DenseToSparseSetOperation", mixed_set_operation),
    ("SparseToSparseSetOperation", sparse_set_operation),
    ("SparseAdd", added),
    ("SparseConcat", concatenated),
    ("SparseReduceMax SparseReduceSum", reduced),
    ("SparseTensorDenseMatMul", dense_product),
    ("SparseToDense", common.shape_input("output_shape")),
)
