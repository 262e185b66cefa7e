"""Gradients of ops that order the elements of rows.

Semantics: tensorflow/python/ops/nn_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.ops import array, math
from graphmill.spi import gradient

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


@gradient("TopK", "TopKV2")
def top_k(op: ForwardOp, dy: Tensor | None, _: Any) -> list[Any]:
    """Scatter the gradients to the positions of the values."""
    rest = [None] * (len(op.inputs) - 1)
    if dy is None:
        return [None, *rest]
    return [_scattered_in_rows(dy, op.outputs[1], op.shape(op.inputs[0])), *rest]


@gradient("ApproxTopK")
def approx_top_k(op: ForwardOp, dy: Tensor | None, _: Any) -> Tensor | None:
    """Scatter the gradients to the positions of the values along the reduced axis."""
    if dy is None:
        return None
    x, indices = op.inputs[0], op.outputs[1]
    rank, axis = x.shape.rank, op.get_attr("reduction_dimension")
    if axis == -1 or (rank is not None and axis % rank == rank - 1):
        return _scattered_in_rows(dy, indices, op.shape(x))
    if rank is None:
        raise InvalidArgumentError(
            f"the gradient of ApproxTopK along dimension {axis} needs the rank of its input, which "
            "is unknown"
        )
    order = list(range(rank))
    order[axis], order[-1] = order[-1], order[axis]  # its own inverse
    shape = array.gather(op.shape(x), order)
    dy, indices = array.transpose(dy, order), array.transpose(indices, order)
    return array.transpose(_scattered_in_rows(dy, indices, shape), order)


def _scattered_in_rows(dy: Tensor, indices: Tensor, shape: Tensor) -> Tensor:
    """Return zeros of a shape, except for the elements of each row that have a gradient."""
    indices = math.cast(indices, DstT="int32")
    width, count = shape[-1], array.shape(indices)[-1]
    flat = array.reshape(indices, array.pack([-1, count]))
    rows = array.expand_dims(math.range(0, array.shape(flat)[0], 1) * width, 1)
    positions = array.reshape(flat + rows, [-1, 1])
    total = math.prod(shape, 0)
    scattered = array.scatter_nd(positions, array.reshape(dy, [-1]), array.expand_dims(total, 0))
    return array.reshape(scattered, shape)


@gradient("IsotonicRegression")
def isotonic_regression(op: ForwardOp, dy: Tensor | None, _: Any) -> Tensor | None:
    """Return the mean of the gradient over each segment."""
    if dy is None:
        return None
    segments, shape = op.outputs[1], op.shape(op.inputs[0])
    width = math.prod(shape[-1:], 0)  # 1 for a scalar
    ids = array.reshape(segments, array.pack([-1, math.maximum(width, 1)]))
    rows = array.expand_dims(math.range(0, array.shape(ids)[0], 1) * width, 1)
    flat = array.reshape(ids + rows, [-1])
    count = array.size(flat)
    sums = math.unsorted_segment_sum(array.reshape(dy, [-1]), flat, count)
    ones = array.ones_like(array.reshape(dy, [-1]))
    sizes = math.unsorted_segment_sum(ones, flat, count)
    means = array.gather(sums, flat) / array.gather(sizes, flat)
    return array.reshape(means, shape)
