"""Slices, padding, gathering and scattering."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.conversion import table

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()
_END = np.iinfo(np.int64).max


@converts("Slice")
def slice_of(node: NodeConversion) -> str:
    """Slice by a begin and a size for each axis; the size -1 means the rest."""
    begin, size = node.as_sizes(1), node.as_sizes(2)
    axes = node.sizes(*range(node.rank(0)))
    known = node.static(2)
    if known is not None and (known >= 0).all():
        end = node.emit("Add", begin, size)
    elif known is not None and (known < 0).all():
        end = node.sizes(*[_END] * len(known))
    else:
        is_rest = node.emit("Less", size, node.sizes(0))
        rest = node.constant(np.int64(_END))
        end = node.emit("Where", is_rest, rest, node.emit("Add", begin, size))
    return node.emit("Slice", node.inputs[0], begin, end, axes)


@converts("StridedSlice")
def strided_slice(node: NodeConversion) -> str:
    """Slice by begins, ends and strides, whose meaning the masks change.

    Semantics: tensorflow/core/util/strided_slice_op.cc.
    """
    strides = node.value(3, "the strides")
    masks = {
        name: int(node.attr(f"{name}_mask"))
        for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")
    }
    count = len(strides)
    skipped = sum(bool(masks["new_axis"] >> i & 1) for i in range(count))
    ellipsis = [i for i in range(count) if masks["ellipsis"] >> i & 1]
    begins: list[str] = []
    ends: list[str] = []
    steps: list[int] = []
    axes: list[int] = []
    new_axes: list[int] = []
    dropped: list[int] = []
    axis = output_axis = 0
    for i in range(count):
        if i in ellipsis:
            width = node.rank(0) - (count - 1 - skipped)
            axis, output_axis = axis + width, output_axis + width
        elif masks["new_axis"] >> i & 1:
            new_axes.append(output_axis)
            output_axis += 1
        else:
            begin, end, step = _bounds(node, i, int(strides[i]), masks)
            begins, ends = [*begins, begin], [*ends, end]
            steps, axes = [*steps, step], [*axes, axis]
            if masks["shrink_axis"] >> i & 1:
                dropped.append(axis)
            else:
                output_axis += 1
            axis += 1
    result = node.inputs[0]
    if axes:
        begin, end = node.emit("Concat", *begins, axis=0), node.emit("Concat", *ends, axis=0)
        result = node.emit("Slice", result, begin, end, node.sizes(*axes), node.sizes(*steps))
    if dropped:
        result = node.emit("Squeeze", result, node.sizes(*dropped))
    if new_axes:
        result = node.emit("Unsqueeze", result, node.sizes(*new_axes))
    return result


def _bounds(node: NodeConversion, i: int, step: int, masks: dict[str, int]) -> tuple[str, str, int]:
    """Return the begin and end of one axis as vectors of one element, and the step."""
    if masks["shrink_axis"] >> i & 1:
        begin = _element(node, 1, i)
        known = node.static(1)
        if known is not None:
            return begin, node.sizes(_END if known[i] == -1 else int(known[i]) + 1), 1
        after = node.emit("Add", begin, node.sizes(1))
        is_last = node.emit("Equal", after, node.sizes(0))
        return begin, node.emit("Where", is_last, node.sizes(_END), after), 1
    first, last = (0, _END) if step > 0 else (_END, -_END)
    begin = node.sizes(first) if masks["begin"] >> i & 1 else _element(node, 1, i)
    end = node.sizes(last) if masks["end"] >> i & 1 else _element(node, 2, i)
    return begin, end, step


def _element(node: NodeConversion, index: int, i: int) -> str:
    known = node.static(index)
    if known is not None:
        return node.sizes(int(known[i]))
    return node.emit("Slice", node.as_sizes(index), node.sizes(i), node.sizes(i + 1))


@converts("ReverseV2")
def reverse(node: NodeConversion) -> str:
    """Reverse axes."""
    axes = [int(axis) for axis in node.value(1, "the axes")]
    if not axes:
        return node.inputs[0]
    count = len(axes)
    begin, end = node.sizes(*[-1] * count), node.sizes(*[-_END] * count)
    steps = node.sizes(*[-1] * count)
    return node.emit("Slice", node.inputs[0], begin, end, node.sizes(*axes), steps)


@converts("Pad", "PadV2", "MirrorPad")
def pad(node: NodeConversion) -> str:
    """Add elements before and after each axis: a constant, or mirrored elements."""
    op = node.node.op
    if op == "MirrorPad" and node.attr("mode") == "SYMMETRIC":
        node.refuse("ONNX has no mirrored padding that repeats the border (SYMMETRIC)")
    known = node.static(1)
    if known is not None:
        pads = node.sizes(*np.asarray(known).T.reshape(-1).tolist())
    else:
        pairs = node.cast(node.inputs[1], dtypes.int64)
        pads = node.reshape(node.transpose(pairs, [1, 0]), -1)
    if op == "MirrorPad":
        return node.emit("Pad", node.inputs[0], pads, mode="reflect")
    number = node.inputs[2] if op == "PadV2" else node.constant(0, like=0)
    return node.emit("Pad", node.inputs[0], pads, number, mode="constant")


@converts("Gather", "GatherV2")
def gather(node: NodeConversion) -> str:
    """Read rows of an axis."""
    if "batch_dims" in node.node.attrs and node.attr("batch_dims"):
        return _gather_in_batches(node)
    has_axis = len(node.inputs) > 2
    axis = int(node.value(2, "the axis").reshape(())) if has_axis else 0
    return node.emit("Gather", *node.inputs[:2], axis=axis)


def _gather_in_batches(node: NodeConversion) -> str:
    """Read rows of the axis after the batch axes."""
    batch = int(node.attr("batch_dims"))
    ranks = node.rank(0), node.rank(1)
    batch = node.axis(batch, ranks[1])
    axis = node.axis(node.value(2, "the axis").reshape(()), ranks[0])
    if axis != batch:
        node.refuse("its axis does not follow its batch axes")
    index = node.emit("Unsqueeze", node.inputs[1], node.sizes(-1))
    if node.dtype(1) is not dtypes.int64:
        index = node.cast(index, dtypes.int64)
    return node.emit("GatherND", node.inputs[0], index, batch_dims=batch)


@converts("GatherNd")
def gather_nd(node: NodeConversion) -> str:
    """Read rows by several indices."""
    index = node.inputs[1]
    if node.dtype(1) is not dtypes.int64:
        index = node.cast(index, dtypes.int64)
    return node.emit("GatherND", node.inputs[0], index)


@converts("TensorScatterUpdate", "TensorScatterAdd", "TensorScatterMax", "TensorScatterMin")
def tensor_scatter(node: NodeConversion) -> str:
    """Change rows."""
    reduction = {"Update": "none", "Add": "add", "Max": "max", "Min": "min"}
    name = reduction[node.node.op.removeprefix("TensorScatter")]
    index = node.inputs[1]
    if node.dtype(1) is not dtypes.int64:
        index = node.cast(index, dtypes.int64)
    return node.emit("ScatterND", node.inputs[0], index, node.inputs[2], reduction=name)


@converts("ScatterNd")
def scatter_nd(node: NodeConversion) -> str:
    """Add rows to zeros."""
    zeros = node.emit("Expand", node.constant(0, like=1), node.as_sizes(2))
    index = node.inputs[0]
    if node.dtype(0) is not dtypes.int64:
        index = node.cast(index, dtypes.int64)
    return node.emit("ScatterND", zeros, index, node.inputs[1], reduction="add")


@converts("OneHot")
def one_hot(node: NodeConversion) -> str:
    """Return vectors with the on-value at an index, and the off-value elsewhere.

    ONNX counts negative indices from the end; TensorFlow finds none there.
    """
    index, depth, on, off = node.inputs
    axis = int(node.attr("axis"))
    is_negative = node.emit("Less", index, node.constant(0, like=0))
    past = node.cast(depth, node.dtype(0)) if node.dtype(0) is not node.dtype(1) else depth
    index = node.emit("Where", is_negative, past, index)
    parts = [node.emit("Unsqueeze", name, node.sizes(0)) for name in (off, on)]
    return node.emit("OneHot", index, depth, node.emit("Concat", *parts, axis=0), axis=axis)


@converts("Where")
def where(node: NodeConversion) -> str:
    """Return the positions of true elements, one row for each."""
    positions = node.emit("NonZero", node.inputs[0])
    return node.transpose(positions, [1, 0])


@converts("MatrixBandPart")
def matrix_band_part(node: NodeConversion) -> str:
    """Keep a band around the diagonal."""
    lower, upper = (int(node.value(i, "the width of the band").reshape(())) for i in (1, 2))
    result = node.inputs[0]
    if upper >= 0:
        result = node.emit("Trilu", result, node.constant(np.int64(upper)), upper=0)
    if lower >= 0:
        result = node.emit("Trilu", result, node.constant(np.int64(-lower)), upper=1)
    return result
