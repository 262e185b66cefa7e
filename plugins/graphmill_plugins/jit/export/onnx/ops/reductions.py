"""Reductions over axes, and the positions of extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill_plugins.jit.export.onnx.conversion import table

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import NodeConversion

CONVERSIONS, converts = table()

_REDUCTIONS: Final = {
    "Sum": "ReduceSum",
    "Mean": "ReduceMean",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
}
_EXTREMES: Final = {"ArgMax": "ArgMax", "ArgMin": "ArgMin"}


def _reduce(node: NodeConversion, op: str, name: str) -> str:
    keep = int(node.attr("keep_dims"))
    return node.emit(op, name, node.as_sizes(1), keepdims=keep, noop_with_empty_axes=1)


@converts(*_REDUCTIONS)
def reduce(node: NodeConversion) -> str:
    """Reduce over axes; without axes, nothing is reduced."""
    return _reduce(node, _REDUCTIONS[node.node.op], node.inputs[0])


@converts("All", "Any")
def reduce_bools(node: NodeConversion) -> str:
    """Return whether all, or any, elements along axes are true."""
    op = "ReduceMin" if node.node.op == "All" else "ReduceMax"
    number = node.cast(node.inputs[0], dtypes.int32)
    return node.cast(_reduce(node, op, number), dtypes.bool)


@converts(*_EXTREMES)
def extreme(node: NodeConversion) -> str:
    """Return the position of the first largest, or smallest, element along an axis."""
    axis = int(node.value(1, "the axis").reshape(()))
    op = _EXTREMES[node.node.op]
    index = node.emit(op, node.inputs[0], axis=axis, keepdims=0)
    is_int64 = node.output_dtype() is dtypes.int64
    return index if is_int64 else node.cast(index, node.output_dtype())


@converts("TopKV2", "TopK")
def top_k(node: NodeConversion) -> list[str]:
    """Return the largest elements of the last axis, and their positions."""
    k = node.as_sizes(1) if node.node.op == "TopKV2" else node.sizes(node.attr("k"))
    attrs = {"axis": -1, "largest": 1, "sorted": int(node.attr("sorted"))}
    values, positions = node.emit_many("TopK", [node.inputs[0], k], 2, **attrs)
    return [values, node.cast(positions, node.output_dtype(1))]


@converts("L2Loss")
def l2_loss(node: NodeConversion) -> str:
    """Return half the sum of squares."""
    square = node.emit("ReduceSumSquare", node.inputs[0], keepdims=0)
    return node.emit("Mul", square, node.constant(0.5, like=0))
