"""Shapes: reading and changing them, joining and splitting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.conversion import table
from graphmill_plugins.jit.export.onnx.element_types import onnx_type

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()


@converts("Const")
def const(node: NodeConversion) -> str:
    """Return the value as a constant."""
    onnx_type(node.output_dtype())  # refuses types that ONNX lacks
    return node.constant(node.node.attrs["value"].numpy())


@converts("Reshape")
def reshape(node: NodeConversion) -> str:
    """Change the shape; a size of 0 is 0."""
    return node.emit("Reshape", node.inputs[0], node.as_sizes(1), allowzero=_allows_zero(node))


def _allows_zero(node: NodeConversion) -> int:
    # With allowzero ONNX permits no -1 beside a 0, and few shapes have a 0.
    shape = node.static(1)
    return int(shape is None or not bool(np.any(shape == -1)))


@converts("Transpose")
def transpose(node: NodeConversion) -> str:
    """Change the order of the axes."""
    return node.transpose(node.inputs[0], node.value(1, "the order of the axes").tolist())


@converts("ExpandDims")
def expand_dims(node: NodeConversion) -> str:
    """Insert an axis of size 1."""
    return node.emit("Unsqueeze", node.inputs[0], node.as_sizes(1))


@converts("Squeeze")
def squeeze(node: NodeConversion) -> str:
    """Remove axes of size 1."""
    axes = [int(axis) for axis in node.attr("squeeze_dims")]
    if not axes:
        shape = node.input_shapes[0]
        if shape is None or -1 in shape:
            node.refuse("it removes all axes of size 1, and sizes of its input are unknown")
        axes = [axis for axis, size in enumerate(shape) if size == 1]
        if not axes:
            return node.inputs[0]
    return node.emit("Squeeze", node.inputs[0], node.sizes(*axes))


@converts("ConcatV2", "Concat")
def concat(node: NodeConversion) -> str:
    """Join along an axis."""
    is_v2 = node.node.op == "ConcatV2"
    index = len(node.inputs) - 1 if is_v2 else 0
    axis = int(node.value(index, "the axis").reshape(()))
    names = node.inputs[:-1] if is_v2 else node.inputs[1:]
    return node.emit("Concat", *names, axis=axis)


@converts("Pack")
def pack(node: NodeConversion) -> str:
    """Join along a new axis."""
    axis = int(node.attr("axis"))
    parts = [node.emit("Unsqueeze", name, node.sizes(axis)) for name in node.inputs]
    return node.emit("Concat", *parts, axis=axis)


@converts("Unpack")
def unpack(node: NodeConversion) -> list[str]:
    """Split along an axis, which is removed."""
    axis, count = int(node.attr("axis")), int(node.attr("num"))
    parts = _split(node, node.inputs[0], axis, [1] * count)
    return [node.emit("Squeeze", part, node.sizes(axis)) for part in parts]


@converts("Split")
def split(node: NodeConversion) -> list[str]:
    """Split into equal parts."""
    axis, count = int(node.value(0, "the axis").reshape(())), int(node.attr("num_split"))
    shape = node.input_shapes[1]
    if shape is not None and shape[axis] >= 0:
        return _split(node, node.inputs[1], axis, [shape[axis] // count] * count)
    return node.emit_many("Split", [node.inputs[1]], count, axis=axis, num_outputs=count)


@converts("SplitV")
def split_v(node: NodeConversion) -> list[str]:
    """Split into parts of given sizes."""
    axis = int(node.value(2, "the axis").reshape(()))
    sizes = [int(size) for size in node.value(1, "the sizes of the parts")]
    if -1 in sizes:
        rest = node.size(0, axis) - sum(size for size in sizes if size >= 0)
        sizes = [rest if size < 0 else size for size in sizes]
    return _split(node, node.inputs[0], axis, sizes)


def _split(node: NodeConversion, name: str, axis: int, sizes: list[int]) -> list[str]:
    return node.emit_many("Split", [name, node.sizes(*sizes)], len(sizes), axis=axis)


@converts("Shape", "ShapeN")
def shape_of(node: NodeConversion) -> list[str]:
    """Return shapes."""
    results = []
    for name, shape in zip(node.inputs, node.input_shapes, strict=True):
        dtype = node.output_dtype()
        if shape is not None and -1 not in shape:
            results.append(node.constant(np.asarray(shape, dtype.as_numpy_dtype)))
            continue
        sizes = node.emit("Shape", name)
        results.append(sizes if dtype is dtypes.int64 else node.cast(sizes, dtype))
    return results


@converts("Size")
def size(node: NodeConversion) -> str:
    """Return the number of elements."""
    count = node.emit("Size", node.inputs[0])
    is_int64 = node.output_dtype() is dtypes.int64
    return count if is_int64 else node.cast(count, node.output_dtype())


@converts("Rank")
def rank(node: NodeConversion) -> str:
    """Return the number of axes."""
    return node.constant(np.int32(node.rank(0)))


@converts("Fill")
def fill(node: NodeConversion) -> str:
    """Return a tensor of a shape, filled with one value."""
    return node.emit("Expand", node.inputs[1], node.as_sizes(0))


@converts("BroadcastTo")
def broadcast_to(node: NodeConversion) -> str:
    """Repeat axes of size 1."""
    return node.emit("Expand", node.inputs[0], node.as_sizes(1))


@converts("ZerosLike", "OnesLike")
def filled_like(node: NodeConversion) -> str:
    """Return zeros or ones in the shape of the input."""
    number = node.constant(int(node.node.op == "OnesLike"), like=0)
    return node.emit("Expand", number, node.emit("Shape", node.inputs[0]))


@converts("Tile")
def tile(node: NodeConversion) -> str:
    """Repeat along axes."""
    return node.emit("Tile", node.inputs[0], node.as_sizes(1))


@converts("Range")
def range_of(node: NodeConversion) -> str:
    """Count from a start to a limit."""
    return node.emit("Range", *node.inputs)


@converts("FakeParam")
def fake_param(node: NodeConversion) -> str:
    """Return a value of the type, which nothing reads."""
    return node.constant(np.zeros((), node.output_dtype().as_numpy_dtype))
