"""Shape functions that the traits of an op imply, for ops without a shape function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.ops.definition.op_traits import ControlFlow, Source
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction

# The shape refiner infers the shape of a merge, as this needs an analysis of loops.
_OF_INPUT: Final = (
    *(ControlFlow.SWITCH, ControlFlow.ENTER, ControlFlow.EXIT),
    *(ControlFlow.NEXT_ITERATION, ControlFlow.LOOP_COND, ControlFlow.SWITCH_N),
)


def function_by_traits(op_def: OpDef) -> ShapeFunction | None:
    """Return the shape function that an op's traits imply, or None."""
    traits = op_def.traits
    if traits.control_flow in _OF_INPUT:
        return all_as_first_input
    if traits.forwards:
        return common.each_unchanged
    if traits.elementwise and len(op_def.output_args) == 1:
        return common.broadcast
    if traits.source is Source.PLACEHOLDER and op_def.has_attr("shape"):
        return common.shape_attr("shape")
    return constant if traits.source is Source.CONSTANT else None


@bounded_by(OutputBound.INPUT)
def all_as_first_input(op: ShapeContext) -> Any:
    """Return the shape of input 0 for each output."""
    return op.inputs[0] if op.num_outputs == 1 else [op.inputs[0]] * op.num_outputs


def constant(op: ShapeContext) -> Any:
    """Return the shape of the attr `value`."""
    return op.get_attr("value").shape
