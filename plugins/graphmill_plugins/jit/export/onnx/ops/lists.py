"""Tensor arrays and tensor lists, as one tensor whose rows are the elements.

The number of rows is the size at creation. The sizes of an element may be unknown until the first
one is written: before, they are 1, and the first write expands them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.conversion import table

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Node
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()


def _rows(node: NodeConversion, size: int, rank: int, dtype: DType) -> str:
    """Return rows of zeros; all sizes of an element are 1."""
    shape = node.as_sizes(size)
    if rank:
        shape = node.emit("Concat", shape, node.sizes(*[1] * rank), axis=0)
    rows = node.emit("Expand", node.constant(np.zeros((), dtype.as_numpy_dtype)), shape)
    return node.list_of(rows, dtype)


def _written(node: NodeConversion, rows: str, index: str, values: str, value: str) -> str:
    """Return the rows with some replaced.

    Args:
        node: the node.
        rows: the rows.
        index: the numbers of the rows to replace, as a column.
        values: the new rows.
        value: a tensor with the shape of one row.
    """
    count = node.emit("Slice", node.emit("Shape", rows), node.sizes(0), node.sizes(1))
    shape = node.emit("Concat", count, node.emit("Shape", value), axis=0)
    return node.same_list(
        rows, node.emit("ScatterND", node.emit("Expand", rows, shape), index, values)
    )


def _set(node: NodeConversion, rows: str, position: int, value: str) -> str:
    index = node.emit("Unsqueeze", node.as_sizes(position), node.sizes(1))
    return _written(node, rows, index, node.emit("Unsqueeze", value, node.sizes(0)), value)


def _get(node: NodeConversion, rows: str, position: int) -> str:
    return node.emit("Gather", rows, node.inputs[position], axis=0)


@converts("TensorArrayV3")
def tensor_array(node: NodeConversion) -> list[str]:
    """Return a handle, which nothing computes with, and the rows as its flow."""
    if node.attr("dynamic_size"):
        node.refuse("its size grows (dynamic_size), which ONNX's tensors cannot")
    shape = node.attr("element_shape")
    if shape is None:
        if not _is_filled_at_once(node.node):
            node.refuse("the rank of its elements (element_shape) is unknown")
        shape = ()
    handle = node.constant(np.zeros((), np.int64))
    return [handle, _rows(node, 0, len(shape), node.attr("dtype"))]


def _is_filled_at_once(node: Node) -> bool:
    """Return whether each reader of the flow fills all rows."""
    readers = [edge.dst for edge in node.out_edges if edge.src_output == 1]
    return bool(readers) and all(_fills_all(reader) for reader in readers)


def _fills_all(node: Node) -> bool:
    """Return whether a node writes rows 0, 1, … in order."""
    if node.op not in ("TensorArrayScatterV3", "TensorArrayUnpackV3"):
        return False
    source = node.inputs[1][0]
    if source.op != "Range":
        return False
    start, delta = (source.inputs[index][0].attrs.get("value") for index in (0, 2))
    return start is not None and delta is not None and start.numpy() == 0 and delta.numpy() == 1


@converts("TensorArrayWriteV3")
def tensor_array_write(node: NodeConversion) -> str:
    """Replace one row."""
    return _set(node, node.inputs[3], 1, node.inputs[2])


@converts("TensorArrayReadV3")
def tensor_array_read(node: NodeConversion) -> str:
    """Return one row."""
    return _get(node, node.inputs[2], 1)


@converts("TensorArrayGatherV3")
def tensor_array_gather(node: NodeConversion) -> str:
    """Return some rows."""
    return _get(node, node.inputs[2], 1)


@converts("TensorArrayScatterV3")
def tensor_array_scatter(node: NodeConversion) -> str:
    """Replace some rows."""
    rows, values = node.inputs[3], node.inputs[2]
    if _fills_all(node.node):
        return node.same_list(rows, node.emit("Identity", values))
    index = node.emit("Unsqueeze", node.as_sizes(1), node.sizes(1))
    first = node.emit(
        "Squeeze", node.emit("Slice", values, node.sizes(0), node.sizes(1)), node.sizes(0)
    )
    return _written(node, rows, index, values, first)


@converts("TensorArraySizeV3")
def tensor_array_size(node: NodeConversion) -> str:
    """Return the number of rows."""
    return _length(node, node.inputs[1])


@converts("TensorListReserve")
def tensor_list_reserve(node: NodeConversion) -> str:
    """Return the rows of a new list."""
    shape = node.value(0, "the shape of its elements")
    if not shape.ndim:
        node.refuse("the rank of its elements is unknown")
    return _rows(node, 1, len(shape), node.attr("element_dtype"))


@converts("TensorListFromTensor")
def tensor_list_from_tensor(node: NodeConversion) -> str:
    """Return the rows of a tensor."""
    return node.list_of(node.emit("Identity", node.inputs[0]), node.dtype())


@converts("TensorListSetItem")
def tensor_list_set_item(node: NodeConversion) -> str:
    """Replace one row."""
    return _set(node, node.inputs[0], 1, node.inputs[2])


@converts("TensorListGetItem")
def tensor_list_get_item(node: NodeConversion) -> str:
    """Return one row."""
    return _get(node, node.inputs[0], 1)


@converts("TensorListStack")
def tensor_list_stack(node: NodeConversion) -> str:
    """Return all rows."""
    return node.inputs[0]


@converts("TensorListLength")
def tensor_list_length(node: NodeConversion) -> str:
    """Return the number of rows."""
    return _length(node, node.inputs[0])


def _length(node: NodeConversion, rows: str) -> str:
    count = node.emit("Gather", node.emit("Shape", rows), node.constant(np.int64(0)), axis=0)
    return node.cast(count, dtypes.int32)
