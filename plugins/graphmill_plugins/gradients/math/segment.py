"""Gradients of segment reductions.

Semantics: tensorflow/python/ops/math_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import const

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


def _rows(params: Tensor, ids: Tensor) -> Tensor:
    return array.gather_v2(params, ids, 0)


def _rows_or_zero(params: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows at `ids`, zeros for negative ids; and a mask of the non-negative ids."""
    rows = _rows(params, math.maximum(ids, 0))
    is_valid = ids >= 0
    extra = array.size(array.shape(rows)) - array.size(array.shape(ids))
    shape = array.concat_v2(
        [array.shape(ids), array.fill(array.expand_dims(extra, 0), const(extra, 1))], 0
    )
    is_valid = math.logical_and(
        array.reshape(is_valid, shape),
        math.equal(array.zeros_like(rows), array.zeros_like(rows)),
    )
    return math.select_v2(is_valid, rows, array.zeros_like(rows)), is_valid


@gradient("SegmentSum")
def segment_sum(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Gather the gradient of each row's segment."""
    return [_rows(dy, op.inputs[1]), None]


@gradient("SegmentMean")
def segment_mean(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Gather the gradient of each row's segment, divided by the segment's size."""
    ids = op.inputs[1]
    shape = op.shape(op.inputs[0])
    ones_shape = array.concat_v2(
        [shape[:1], array.fill(array.expand_dims(array.size(shape) - 1, 0), 1)], 0
    )
    counts = math.segment_sum(array.fill(ones_shape, const(dy, 1)), ids)
    return [_rows(dy / counts, ids), None]


@gradient("SegmentMin", "SegmentMax")
def segment_extreme(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Divide a segment's gradient among the rows that equal its extreme."""
    x, ids = op.inputs
    is_hit = math.equal(x, _rows(op.outputs[0], ids))
    counts = math.segment_sum(math.cast(is_hit, DstT=dy.dtype.base_dtype), ids)
    shares = _rows(dy / counts, ids)
    return [math.select_v2(is_hit, shares, array.zeros_like(shares)), None]


@gradient("UnsortedSegmentSum")
def unsorted_segment_sum(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradient of each row's segment."""
    return [_rows_or_zero(dy, op.inputs[1])[0], None, None]


@gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def unsorted_segment_extreme(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Divide a segment's gradient among the rows that equal its extreme."""
    x, ids, count = op.inputs
    gathered, is_valid = _rows_or_zero(op.outputs[0], ids)
    is_hit = math.logical_and(math.equal(x, gathered), is_valid)
    hits = math.unsorted_segment_sum(math.cast(is_hit, DstT=dy.dtype.base_dtype), ids, count)
    shares = _rows_or_zero(dy / hits, ids)[0]
    return [math.select_v2(is_hit, shares, array.zeros_like(shares)), None, None]


@gradient("UnsortedSegmentProd")
def unsorted_segment_prod(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Multiply by the product of the segment's other rows."""
    x, ids, count = op.inputs
    is_zero = math.equal(x, const(x, 0))
    zeros = math.unsorted_segment_sum(math.cast(is_zero, DstT="int32"), ids, count)
    kept_dy = math.select_v2(zeros > 1, array.zeros_like(dy), dy)
    others = math.select_v2(is_zero, array.ones_like(x), x)
    without = math.unsorted_segment_prod(others, ids, count)
    safe = math.maximum(ids, 0)
    product = _rows(op.outputs[0], safe) / x
    share = math.select_v2(is_zero, _rows(without, safe), product)
    return [_rows_or_zero(kept_dy, ids)[0] * share, None, None]


@gradient("SegmentProd")
def segment_prod(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Multiply by the product of the segment's other rows."""
    x, ids = op.inputs
    is_zero = math.equal(x, const(x, 0))
    zeros = math.segment_sum(math.cast(is_zero, DstT="int32"), ids)
    kept_dy = math.select_v2(zeros > 1, array.zeros_like(dy), dy)
    without = math.segment_prod(math.select_v2(is_zero, array.ones_like(x), x), ids)
    share = math.select_v2(is_zero, _rows(without, ids), _rows(op.outputs[0], ids) / x)
    return [_rows(kept_dy, ids) * share, None]


@gradient("SparseSegmentSum")
def sparse_segment_sum(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add the gradient of each segment to its rows."""
    count = op.shape(op.inputs[0])[0]
    rows = _rows(dy, op.inputs[2])
    return [math.unsorted_segment_sum(rows, op.inputs[1], count), None, None]


@gradient("SparseSegmentSumWithNumSegments")
def sparse_segment_sum_n(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add the gradient of each segment to its rows."""
    return [*sparse_segment_sum(op, dy), None]


@gradient("SparseSegmentMean")
def sparse_segment_mean(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add the gradient of each segment, divided by its size, to its rows."""
    count = op.shape(op.inputs[0])[0]
    return [math.sparse_segment_mean_grad(dy, op.inputs[1], op.inputs[2], count), None, None]


@gradient("SparseSegmentSqrtN")
def sparse_segment_sqrt_n(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add the gradient of each segment, divided by the root of its size, to its rows."""
    count = op.shape(op.inputs[0])[0]
    return [math.sparse_segment_sqrt_n_grad(dy, op.inputs[1], op.inputs[2], count), None, None]
