"""The roles of nodes in a graph, as the traits of their ops declare them.

    if is_merge(node): ...

Code that analyses graphs calls these functions instead of comparing names of ops, so that an op of
a plugin is treated like TensorFlow's op with the same role. `graphmill.ops.definition.op_traits`
describes the roles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.definition.op_traits import Boundary, ControlFlow, Source

if TYPE_CHECKING:
    from graphmill.graph.node import Node

# Bound once, because looking up an enum member costs more than the test.
_SWITCH: Final = ControlFlow.SWITCH
_MERGE: Final = ControlFlow.MERGE
_ENTER: Final = ControlFlow.ENTER
_EXIT: Final = ControlFlow.EXIT
_NEXT_ITERATION: Final = ControlFlow.NEXT_ITERATION
_LOOP_COND: Final = ControlFlow.LOOP_COND
_TRIGGER: Final = ControlFlow.TRIGGER
_ARGUMENT: Final = Boundary.ARGUMENT
_RESULT: Final = Boundary.RESULT
_SEND: Final = Boundary.SEND
_RECEIVE: Final = Boundary.RECEIVE
_CONSTANT: Final = Source.CONSTANT
_PLACEHOLDER: Final = Source.PLACEHOLDER

SCALAR_MEANS_UNKNOWN_BEFORE: Final = 24
"""The first version of producers that do not write rank 0 for an unknown shape."""


def may_have_any_rank(node: Node) -> bool:
    """Return whether a placeholder declares rank 0 in an old graph, where this means no shape."""
    if node.op_def.traits.source is not _PLACEHOLDER or node.attrs.get("shape") != ():
        return False
    return 0 < node.graph.versions.producer < SCALAR_MEANS_UNKNOWN_BEFORE


def is_switch(node: Node) -> bool:
    """Return whether a node sends its input to one of two outputs."""
    return node.op_def.traits.control_flow is _SWITCH


def is_merge(node: Node) -> bool:
    """Return whether a node forwards the one of its inputs that is live."""
    return node.op_def.traits.control_flow is _MERGE


def is_enter(node: Node) -> bool:
    """Return whether a node brings a value into a frame."""
    return node.op_def.traits.control_flow is _ENTER


def is_constant_enter(node: Node) -> bool:
    """Return whether a node brings a value into a frame for all iterations."""
    return node.op_def.traits.control_flow is _ENTER and bool(node.attrs["is_constant"])


def is_exit(node: Node) -> bool:
    """Return whether a node passes a value to the enclosing frame."""
    return node.op_def.traits.control_flow is _EXIT


def is_next_iteration(node: Node) -> bool:
    """Return whether a node passes a value to the next iteration."""
    return node.op_def.traits.control_flow is _NEXT_ITERATION


def is_loop_cond(node: Node) -> bool:
    """Return whether a node decides whether a loop continues."""
    return node.op_def.traits.control_flow is _LOOP_COND


def is_control_trigger(node: Node) -> bool:
    """Return whether a node runs even if its control inputs are dead."""
    return node.op_def.traits.control_flow is _TRIGGER


def is_argument(node: Node) -> bool:
    """Return whether a node represents an argument of its graph."""
    return node.op_def.traits.boundary is _ARGUMENT


def is_result(node: Node) -> bool:
    """Return whether a node represents a result of its graph."""
    return node.op_def.traits.boundary is _RESULT


def is_argument_or_result(node: Node) -> bool:
    """Return whether a node is an argument or result, which executors handle without a kernel."""
    boundary = node.op_def.traits.boundary
    return boundary is _ARGUMENT or boundary is _RESULT


def is_send(node: Node) -> bool:
    """Return whether a node sends a value to another partition."""
    return node.op_def.traits.boundary is _SEND


def is_receive(node: Node) -> bool:
    """Return whether a node receives a value from another partition."""
    return node.op_def.traits.boundary is _RECEIVE


def is_transfer(node: Node) -> bool:
    """Return whether a node sends or receives."""
    boundary = node.op_def.traits.boundary
    return boundary is _SEND or boundary is _RECEIVE


def is_constant(node: Node) -> bool:
    """Return whether a node outputs the value of its attr `value`."""
    return node.op_def.traits.source is _CONSTANT


def is_placeholder(node: Node) -> bool:
    """Return whether a node's value must be fed."""
    return node.op_def.traits.source is _PLACEHOLDER


def forwarded(node: Node, output: int) -> tuple[Node, int] | None:
    """Return the input that a node forwards unchanged as an output; None if it computes the output.

    Control flow that may make the value dead or pass it to another frame does not count.
    """
    if not node.op_def.traits.forwards:
        return None
    edge = node.in_edges[output]
    return edge.src, edge.src_output


def without_forwarding(node: Node, output: int) -> tuple[Node, int]:
    """Return the output that computes a value, skipping nodes that only forward it."""
    while (before := forwarded(node, output)) is not None:
        node, output = before
    return node, output
