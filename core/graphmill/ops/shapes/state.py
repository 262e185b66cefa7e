"""Shapes of variables and of ops that change them.

Semantics: tensorflow/core/ops/state_ops.cc and resource_variable_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

_BY_REFERENCE = """
    AssignAdd AssignSub CountUpTo ScatterAdd ScatterDiv ScatterMax ScatterMin ScatterMul
    ScatterNdAdd ScatterNdMax ScatterNdMin ScatterNdSub ScatterNdUpdate ScatterSub ScatterUpdate
"""


def assigned(op: ShapeContext) -> TensorShape:
    """Return the shape of `Assign`: that of the value."""
    if op.get_attr("validate_shape"):
        return op.inputs[0].merge_with(op.inputs[1])
    return op.inputs[1]


def variable(op: ShapeContext) -> TensorShape:
    """Return the shape of a variable; for `Variable`, a scalar shape means unknown."""
    shape = TensorShape(op.get_attr("shape"))
    return UNKNOWN_SHAPE if op.type == "Variable" and shape.rank == 0 else shape


def read(op: ShapeContext) -> TensorShape:
    """Return the shape of `ReadVariableOp`: that of the variable."""
    return op.variable_shape("resource")


def gathered(op: ShapeContext) -> TensorShape:
    """Return the shape of `ResourceGather`."""
    rows = op.variable_shape("resource").with_rank_at_least(1)
    batch = op.get_attr("batch_dims")
    if rows.dims is None or op.inputs[1].dims is None or batch < 0:
        return UNKNOWN_SHAPE
    return rows[:batch] + op.inputs[1][batch:] + rows[batch + 1 :]


def variable_shape(op: ShapeContext) -> TensorShape:
    """Return the shape of a variable's shape."""
    return TensorShape((op.variable_shape("input").rank,))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_BY_REFERENCE, common.unchanged),
    ("VarHandleOp VarIsInitializedOp IsVariableInitialized", common.scalars),
    ("VariableV2 Variable", variable),
    ("TemporaryVariable", common.shape_attr("shape")),
    ("Assign", assigned),
    ("ReadVariableOp", read),
    ("ResourceGather", gathered),
    ("VariableShape", variable_shape),
)
