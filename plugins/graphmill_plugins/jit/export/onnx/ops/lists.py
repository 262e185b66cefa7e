"""Tensor arrays and tensor lists, as one tensor whose rows are the elements.

The sizes of an element may be unknown until the first one is written: before, they are 1, and the
first write expands them. If its rank is unknown as well, there are no sizes before.
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


def _rows(
    node: NodeConversion, count: str, rank: int | None, dtype: DType, *, grows: bool = False
) -> str:
    """Return rows of zeros; all sizes of an element are 1."""
    shape = node.emit("Concat", count, node.sizes(*[1] * rank), axis=0) if rank else count
    rows = node.emit("Expand", node.constant(np.zeros((), dtype.as_numpy_dtype)), shape)
    return node.list_of(rows, dtype, has_rank=rank is not None, grows=grows)


def _fitted(node: NodeConversion, rows: str, value: str) -> str:
    """Return the rows with the sizes of an element.

    Args:
        node: the node.
        rows: the rows.
        value: a tensor with the shape of one row.
    """
    shape = node.emit("Shape", value)
    if not node.list_tensor(rows).has_rank:
        # As many sizes of 1 as the rows lack: none after the first write.
        own = node.emit("Shape", rows)
        rank = node.emit("Add", node.emit("Size", shape), node.constant(np.int64(1)))
        lacking = node.reshape(node.emit("Sub", rank, node.emit("Size", own)), 1)
        ones = node.emit("Expand", node.sizes(1), lacking)
        rows = node.emit("Reshape", rows, node.emit("Concat", own, ones, axis=0), allowzero=1)
    return node.emit("Expand", rows, node.emit("Concat", _count(node, rows), shape, axis=0))


def _count(node: NodeConversion, rows: str) -> str:
    """Return the number of rows as a vector of one element."""
    return node.emit("Slice", node.emit("Shape", rows), node.sizes(0), node.sizes(1))


def _written(node: NodeConversion, rows: str, index: str, values: str, value: str) -> str:
    """Return the rows with some replaced.

    Args:
        node: the node.
        rows: the rows.
        index: the numbers of the rows to replace, as a column.
        values: the new rows.
        value: a tensor with the shape of one row.
    """
    fitted = _fitted(node, rows, value)
    if node.list_tensor(rows).grows:
        last = node.reshape(node.emit("ReduceMax", index, keepdims=0), 1)
        end = node.emit("Add", last, node.sizes(1))
        more = node.emit("Max", node.emit("Sub", end, _count(node, fitted)), node.sizes(0))
        shape = node.emit("Concat", more, node.emit("Shape", value), axis=0)
        zero = node.constant(np.zeros((), node.dtype(2).as_numpy_dtype))
        fitted = node.emit("Concat", fitted, node.emit("Expand", zero, shape), axis=0)
    return node.same_list(rows, node.emit("ScatterND", fitted, index, values))


def _set(node: NodeConversion, rows: str, position: int, value: str) -> str:
    index = node.emit("Unsqueeze", node.as_sizes(position), node.sizes(1))
    return _written(node, rows, index, node.emit("Unsqueeze", value, node.sizes(0)), value)


def _get(node: NodeConversion, rows: str, position: int) -> str:
    return node.emit("Gather", rows, node.inputs[position], axis=0)


@converts("TensorArrayV3")
def tensor_array(node: NodeConversion) -> list[str]:
    """Return a handle, which nothing reads, and the rows as its flow."""
    shape, size = node.attr("element_shape"), node.as_sizes(0)
    rank = None if shape is None else len(shape)
    handle = node.constant(np.zeros((), np.int64))
    return [handle, _rows(node, size, rank, node.attr("dtype"), grows=node.attr("dynamic_size"))]


def _fills_all(node: Node) -> bool:
    """Return whether a node writes rows 0, 1, … in order."""
    if node.op != "TensorArrayScatterV3":
        return False
    source = node.sources[1][0]
    if source.op != "Range":
        return False
    start, delta = (source.sources[index][0].attrs.get("value") for index in (0, 2))
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
    rank = len(shape) if shape.ndim else None
    return _rows(node, node.as_sizes(1), rank, node.attr("element_dtype"))


@converts("EmptyTensorList")
def empty_tensor_list(node: NodeConversion) -> str:
    """Return no rows."""
    shape = node.value(0, "the shape of its elements")
    rank = len(shape) if shape.ndim else None
    return _rows(node, node.sizes(0), rank, node.attr("element_dtype"))


@converts("TensorListPushBack")
def tensor_list_push_back(node: NodeConversion) -> str:
    """Add a row."""
    rows, value = node.inputs
    row = node.emit("Unsqueeze", value, node.sizes(0))
    joined = node.emit("Concat", _fitted(node, rows, value), row, axis=0)
    return node.same_list(rows, joined)


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
