"""Shapes of ops of ragged tensors.

Semantics: tensorflow/core/ops/ragged_conversion_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_PARTITIONS: Final = (
    *(b"FIRST_DIM_SIZE", b"VALUE_ROWIDS", b"ROW_LENGTHS", b"ROW_SPLITS", b"ROW_LIMITS"),
    *(b"ROW_STARTS",),
)


def dense(op: ShapeContext) -> TensorShape:
    """Return the shape of `RaggedTensorToTensor`: the requested one, with the values' sizes."""
    values = op.shape("values")
    _check_default(op.shape("default_value"), values)
    _check_partitions(op)
    types = list(op.get_attr("row_partition_types"))
    ragged_rank = len(types) - (types[:1] == [b"FIRST_DIM_SIZE"])
    shape = op.value_as_shape("shape")
    if values.dims is None:
        return shape
    rank = ragged_rank + len(values.dims)
    inner = ((None,) * (ragged_rank + 1) + tuple(values.dims[1:]))[:rank]
    if shape.dims is None:
        return TensorShape(inner)
    if len(shape.dims) != rank:
        raise InvalidArgumentError(
            f"shape {shape} has {len(shape.dims)} dimensions, expected {rank}: {ragged_rank} that "
            f"are ragged, and {len(values.dims)} of the values"
        )
    return shape.merge_with(inner)


def _check_partitions(op: ShapeContext) -> None:
    """Check the ranks of what divides the values into rows.

    Raises:
        InvalidArgumentError: a size is no scalar, other tensors are no vectors, or a kind is
            unknown, or there is none.
    """
    types = op.get_attr("row_partition_types")
    if not types:
        raise InvalidArgumentError("Partition info types should not be empty")
    unknown = [kind for kind in types if kind not in _PARTITIONS]
    if unknown:
        raise InvalidArgumentError(f"Unknown string for partition info type: {unknown[0]!r}")
    for kind, shape in zip(types, op.shapes("row_partition_tensors"), strict=False):
        shape.with_rank(0 if kind == b"FIRST_DIM_SIZE" else 1)


def _check_default(default: TensorShape, values: TensorShape) -> None:
    """Check that the default value can be broadcast to an element of the values.

    Raises:
        InvalidArgumentError: it has too many dimensions, or other sizes.
    """
    if default.dims is None or values.dims is None:
        return
    pairs = zip(default.dims, values.dims[1:], strict=False)
    if len(default.dims) >= len(values.dims) or any(
        None not in (one, size) and one not in (1, size) for one, size in pairs
    ):
        raise InvalidArgumentError(
            f"the default value of shape {default} cannot be broadcast to an element of the values "
            f"of shape {values}"
        )


def gathered(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedGather`: splits, and values of unknown number."""
    splits = [TensorShape((None,))] * (op.num_outputs - 1)
    values = op.shape("params_dense_values").with_rank_at_least(1)
    return [*splits, TensorShape((None,)) + values[1:]]


def ranges(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedRange`: a split more than rows, and the values."""
    rows = TensorShape((1 if all(shape.rank == 0 for shape in op.inputs) else None,))
    for shape in op.inputs:
        if shape.rank == 1:
            rows = rows.merge_with(shape)
    return [_splits_of(rows), TensorShape((None,))]


def crossed(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedCross`: crossed values, and the splits of as many rows."""
    splits = TensorShape((None,))
    for given in op.shapes("ragged_row_splits"):
        splits = splits.merge_with(given)
    for inputs in op.shapes("dense_inputs"):
        splits = splits.merge_with(_splits_of(inputs.with_rank(2)))
    return [TensorShape((None,)), splits]


def _splits_of(rows: TensorShape) -> TensorShape:
    """Return the shape of the splits of as many rows as a shape has in its first dimension."""
    return TensorShape((common.sized(rows[0], lambda count: count + 1),))


def encoded_gradient(op: ShapeContext) -> TensorShape:
    """Return the shape of `RaggedTensorToVariantGradient`, which is given."""
    return op.value_as_shape("dense_values_shape")


def sparse(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedTensorToSparse`: indices, values, and the dense shape."""
    values = op.shape("rt_dense_values")
    count = None if values.dims is None else common.product(values.dims)
    rank = None if values.dims is None else op.get_attr("RAGGED_RANK") + len(values.dims)
    return [TensorShape((count, rank)), TensorShape((count,)), TensorShape((rank,))]


def encoded(op: ShapeContext) -> TensorShape:
    """Return the shape of `RaggedTensorToVariant`: one variant, or one for each row."""
    if not op.get_attr("batched_input"):
        return TensorShape(())
    rows = op.inputs[0]
    size = None if rows.dims is None else rows[0]
    if op.get_attr("RAGGED_RANK"):
        size = common.sized(size, lambda count: count - 1)
    return TensorShape((size,))


def decoded(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedTensorFromVariant`: splits, and values of unknown shape."""
    return [*[TensorShape((None,))] * (op.num_outputs - 1), TensorShape(None)]


def filled(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedFillEmptyRows`: rows and values of unknown number."""
    rows = op.shape("value_rowids").with_rank(1)
    return [*[TensorShape((None,))] * 3, rows]


def filled_gradient(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `RaggedFillEmptyRowsGrad`: of the values, and of the default value."""
    return [op.shape("reverse_index_map").with_rank(1), TensorShape(())]


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("RaggedCross", crossed),
    ("RaggedFillEmptyRows", filled),
    ("RaggedFillEmptyRowsGrad", filled_gradient),
    ("RaggedGather", gathered),
    ("RaggedRange", ranges),
    ("RaggedTensorFromVariant", decoded),
    ("RaggedTensorToSparse", sparse),
    ("RaggedTensorToTensor", dense),
    ("RaggedTensorToVariant", encoded),
    ("RaggedTensorToVariantGradient", encoded_gradient),
)
