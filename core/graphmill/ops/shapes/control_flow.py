"""Shapes of control flow ops.

Semantics: tensorflow/core/ops/control_flow_ops.cc. The shape refiner infers the shape of `Merge`,
as this needs an analysis of loops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction


def switched(op: ShapeContext) -> Any:
    """Return the shape of the value for each branch."""
    return [op.inputs[0]] * op.num_outputs


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("Enter RefEnter Exit RefExit NextIteration RefNextIteration", common.unchanged),
    ("LoopCond", common.unchanged),
    ("Switch RefSwitch", switched),
)
