"""Gradients of ragged tensors, routed by applying the op to the values' indices.

Semantics: tensorflow/python/ops/ragged/ragged_conversion_ops.py, ragged_gather_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math, ragged
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import as_dense

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable("RaggedRange")


def _numbers(count: Tensor) -> Tensor:
    """Return 1, 2, … count, to identify values; zero marks positions without a value."""
    return math.range(1, count + 1, 1)


@gradient("RaggedTensorToTensor")
def ragged_tensor_to_tensor(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather each value's gradient; the default value gets the sum over all filled positions."""
    _, values, default, *partitions = op.inputs
    kinds = op.get_attr("row_partition_types")
    depth = len(kinds) + (0 if kinds[0] == b"FIRST_DIM_SIZE" else 1)
    dense_dy = as_dense(dy)
    value_shape = op.shape(values)
    count, inner = value_shape[0], value_shape[1:]
    value_ids = ragged.ragged_tensor_to_tensor(
        array.shape(dense_dy)[:depth],
        _numbers(count),
        0,
        partitions,
        row_partition_types=kinds,
    )
    value_ids = array.reshape(value_ids, [-1])
    rows = array.reshape(dense_dy, array.concat_v2([array.shape(value_ids), inner], 0))
    sums = math.unsorted_segment_sum(rows, value_ids, count + 1)
    by_values, filled = sums[1:], sums[0]
    default_shape = op.shape(default)
    axes = array.broadcast_gradient_args(default_shape, inner).r0
    by_default = array.reshape(math.sum(filled, axes), default_shape)
    return [None, by_values, by_default, *[None] * len(partitions)]


@gradient("RaggedGather")
def ragged_gather(op: ForwardOp, *dys: Tensor | None) -> list[Any]:
    """Add the gradient of each row to its source row."""
    depth = op.get_attr("PARAMS_RAGGED_RANK")
    gradients: list[Any] = [None] * len(op.inputs)
    dy = dys[-1]
    if dy is None:
        return gradients
    splits, values, indices = op.inputs[:depth], op.inputs[depth], op.inputs[depth + 1]
    count = op.shape(values)[0]
    value_ids = ragged.ragged_gather(
        splits,
        _numbers(count),
        indices,
        OUTPUT_RAGGED_RANK=op.get_attr("OUTPUT_RAGGED_RANK"),
    ).output_dense_values
    gradients[depth] = math.unsorted_segment_sum(dy, value_ids - 1, count)
    return gradients


@gradient("RaggedTensorToSparse")
def ragged_tensor_to_sparse(op: ForwardOp, _: Any, dy: Tensor | None, _shape: Any) -> list[Any]:
    """Reshape the gradient of the values."""
    rest = [None] * (len(op.inputs) - 1)
    if dy is None:
        return [*rest, None]
    return [*rest, array.reshape(dy, op.shape(op.inputs[-1]))]


@gradient("RaggedFillEmptyRows")
def ragged_fill_empty_rows(op: ForwardOp, *dys: Tensor | None) -> list[Any]:
    """Gather the gradient of the values; the default value gets the sum of the rest."""
    dy = dys[1]
    if dy is None:
        return [None] * 4
    gradients = ragged.ragged_fill_empty_rows_grad(op.outputs[3], dy)
    return [None, gradients.d_values, None, gradients.d_default_value]


@gradient("RaggedTensorFromVariant")
def ragged_tensor_from_variant(op: ForwardOp, *dys: Tensor | None) -> list[Any]:
    """Encode the gradient of the values in variants, with the rows of the values."""
    dy = dys[-1]
    if dy is None:
        return [None]
    rank = op.inputs[0].shape.rank
    is_batched = rank == 1 if rank is not None else op.get_attr("output_ragged_rank") > 0
    return [ragged.ragged_tensor_to_variant(op.outputs[:-1], dy, batched_input=is_batched)]


@gradient("RaggedTensorToVariant")
def ragged_tensor_to_variant(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Decode the gradient of the values."""
    *splits, values = op.inputs
    dx = ragged.ragged_tensor_to_variant_gradient(
        dy,
        splits[0] if splits else 0,
        op.shape(values),
        Tvalues=values.dtype.base_dtype,
    )
    return [*[None] * len(splits), dx]
