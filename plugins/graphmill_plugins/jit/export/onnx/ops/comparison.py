"""Comparisons, logic, and choices between elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill_plugins.jit.export.onnx.conversion import table

if TYPE_CHECKING:
    from graphmill_plugins.jit.export.onnx.conversion import Conversion, NodeConversion

CONVERSIONS, converts = table()

_SAME: Final = {
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "IsInf": "IsInf",
    "IsNan": "IsNaN", "Less": "Less", "LessEqual": "LessOrEqual", "LogicalAnd": "And",
    "LogicalNot": "Not", "LogicalOr": "Or", "SelectV2": "Where",
}  # fmt: skip


def _same(op: str) -> Conversion:
    return lambda node: node.emit(op, *node.inputs)


CONVERSIONS.update({name: _same(op) for name, op in _SAME.items()})


@converts("NotEqual")
def not_equal(node: NodeConversion) -> str:
    """Return whether elements differ."""
    return node.emit("Not", node.emit("Equal", *node.inputs))


@converts("IsFinite")
def is_finite(node: NodeConversion) -> str:
    """Return whether elements are neither infinite nor NaN."""
    x = node.inputs[0]
    return node.emit("Not", node.emit("Or", node.emit("IsInf", x), node.emit("IsNaN", x)))


@converts("Select")
def select(node: NodeConversion) -> str:
    """Choose elements, or whole rows by a vector of conditions."""
    condition, ranks = node.inputs[0], (node.rank(0), node.rank(1))
    if ranks[0] == 1 and ranks[1] > 1:
        condition = node.reshape(condition, -1, *([1] * (ranks[1] - 1)))
    return node.emit("Where", condition, *node.inputs[1:])


@converts("ApproximateEqual")
def approximate_equal(node: NodeConversion) -> str:
    """Return whether elements differ by less than a tolerance."""
    difference = node.emit("Abs", node.emit("Sub", *node.inputs))
    return node.emit("Less", difference, node.constant(node.attr("tolerance"), like=0))
