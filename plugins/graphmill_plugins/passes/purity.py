"""Which nodes a pass may compute earlier, once instead of twice, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.effects import effects_of

if TYPE_CHECKING:
    from graphmill.graph.node import Node

# What these do depends on where they are: in a frame, at the edge of a graph, in a session.
_BOUND: Final = frozenset(
    {"Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond", "ControlTrigger", "_SwitchN"}
    | {"_Arg", "_Retval", "_Send", "_Recv", "_HostSend", "_HostRecv", "Placeholder", "NoOp"}
    | {"CheckNumerics", "CheckNumericsV2", "Assert", "PreventGradient"}
)


def is_pure(node: Node) -> bool:
    """Return whether a node's outputs depend on its inputs and attrs alone, and it does no more."""
    return not (
        node.op in _BOUND
        or node.op_def.is_stateful
        or node.op in node.graph.library
        or effects_of(node.op_def)
        or any(dtype.is_ref for dtype in (*node.input_types, *node.output_types))
        or _calls_a_function(node)
    )


def _calls_a_function(node: Node) -> bool:
    return any(attr.type in ("func", "list(func)") for attr in node.op_def.attrs)
