"""Gradients of ops that gather or scatter by index.

Semantics: tensorflow/python/ops/array_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill.spi.gradients import IndexedSlices
from graphmill_plugins.gradients._support import as_dense, scattered

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor


@gradient("Gather")
def gather(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Return the gradient as slices of the gathered rows."""
    return [_rows(op, dy), None]


def _rows(op: ForwardOp, dy: Gradient) -> IndexedSlices:
    shape = op.shape(op.inputs[0])
    indices = array.reshape(op.inputs[1], [-1])
    values = array.reshape(as_dense(dy), array.concat_v2([array.size(indices)[None], shape[1:]], 0))
    return IndexedSlices(values, indices, shape)


def _constant(tensor: Tensor) -> int | None:
    """Return the value of a scalar constant."""
    return int(tensor.op.attrs["value"].numpy()) if tensor.op.op == "Const" else None


@gradient("GatherV2")
def gather_v2(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Return slices of the gathered rows; along another axis, scatter into zeros."""
    batch = op.get_attr("batch_dims")
    axis = _constant(op.inputs[2])
    if batch == 0 and axis == 0:
        return [_rows(op, dy), None, None]
    return [_along_axis(op, as_dense(dy), batch), None, None]


def _along_axis(op: ForwardOp, dy: Tensor, batch: int) -> Tensor:
    """Scatter the gradient of gathered slices into zeros.

    `params` has shape [batch, outer, axis, inner], the indices have shape [batch, indices]. All
    axes up to `axis` become one axis, for which the indices are offset.
    """
    shape, index_shape = op.shape(op.inputs[0]), op.shape(op.inputs[1])
    rank = array.size(shape)
    axis = math.floor_mod(math.cast(op.inputs[2], DstT="int32"), rank)
    if batch < 0:
        batch_count = math.floor_mod(op.graph.constant(batch), array.size(index_shape))
    else:
        batch_count = op.graph.constant(batch)
    positions = math.range(0, rank, 1)

    def sizes(start: Tensor, stop: Tensor) -> Tensor:
        inside = math.logical_and(positions >= start, positions < stop)
        return math.prod(math.select_v2(inside, shape, 1), 0)

    outer_batch, outer = sizes(op.graph.constant(0), batch_count), sizes(batch_count, axis)
    length = shape[axis]
    inner = sizes(axis + 1, rank)
    indices = math.cast(op.inputs[1], DstT="int32")
    read = array.reshape(indices, array.pack([outer_batch, 1, -1]))
    groups = math.range(0, outer_batch * outer, 1)
    first = array.reshape(groups, array.pack([outer_batch, outer, 1])) * length
    flat = array.reshape(first + read, [-1])
    values = array.reshape(dy, array.pack([array.size(flat), inner]))
    sums = math.unsorted_segment_sum(values, flat, outer_batch * outer * length)
    return array.reshape(sums, shape)


@gradient("GatherNd")
def gather_nd(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Scatter the gradient into zeros."""
    return [scattered(op, dy, bad_indices_policy=op.get_attr("bad_indices_policy")), None]


@gradient("ScatterNd")
def scatter_nd(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradient at the indices."""
    return [None, array.gather_nd(as_dense(dy), op.inputs[0]), None]


@gradient("TensorScatterUpdate")
def tensor_scatter_update(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Pass the gradient of replaced elements to the updates."""
    blank = op.zeros(op.inputs[2])
    unchanged = array.tensor_scatter_update(dy, op.inputs[1], blank)
    return [unchanged, None, array.gather_nd(dy, op.inputs[1])]


@gradient("TensorScatterAdd")
def tensor_scatter_add(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather the gradient at the indices for the updates."""
    return [dy, None, array.gather_nd(dy, op.inputs[1])]


@gradient("TensorScatterSub")
def tensor_scatter_sub(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Gather and negate the gradient at the indices for the updates."""
    return [dy, None, -array.gather_nd(dy, op.inputs[1])]


@gradient("TensorScatterMax", "TensorScatterMin")
def tensor_scatter_extreme(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Divide each gradient among the values that equal the extreme."""
    x, indices, updates = op.inputs
    y = op.outputs[0]
    kind = dy.dtype.base_dtype
    is_x = math.cast(math.equal(x, y), DstT=kind)
    is_update = math.cast(math.equal(updates, array.gather_nd(y, indices)), DstT=kind)
    counts = array.tensor_scatter_add(is_x, indices, is_update)
    shares = dy / counts
    return [is_x * shares, None, is_update * array.gather_nd(shares, indices)]


@gradient("StridedSliceAssign")
def none(op: ForwardOp, dy: Tensor) -> list[None]:
    """Return None, because variable writes have no derivative."""
    del dy
    return [None] * len(op.inputs)


@gradient("ExtractImagePatches")
def extract_image_patches(op: ForwardOp, dy: Tensor) -> Tensor:
    """Add each patch to its pixels, found by extracting patches of pixel indices."""
    shape = op.shape(op.inputs[0])
    count, depth = shape[1] * shape[2], shape[3]
    numbers = math.range(1, count + 1, 1)
    numbers = array.reshape(numbers, array.pack([1, shape[1], shape[2], 1]))
    names = ("ksizes", "strides", "rates", "padding")
    patches = array.extract_image_patches(numbers, **{n: op.get_attr(n) for n in names})
    ids = array.reshape(patches, [-1]) - 1  # -1 marks padding
    batch = shape[0]
    by_patch = array.reshape(dy, array.pack([batch, array.size(ids), depth]))
    rows = array.transpose(by_patch, [1, 0, 2])
    sums = math.unsorted_segment_sum(rows, ids, count)
    return array.reshape(array.transpose(sums, [1, 0, 2]), shape)
