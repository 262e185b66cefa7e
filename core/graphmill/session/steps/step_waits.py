"""Describe what a step waits for, or waited for when it was cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.dtypes import resource
from graphmill.runtime.steps.waits import WaitRecord, add_waits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.executor import ExecutorArgs

_MAX_NAMED: Final = 3


def describe_cancelled(error: OpError, args: ExecutorArgs, graph: Graph) -> None:
    """Add to the error of a cancelled step what its nodes waited for.

    Args:
        error: the error, which is changed.
        args: the arguments of the step.
        graph: the session's graph.
    """
    add_waits(error, _cancelled_waits(args, graph))


def describe_interrupted(error: KeyboardInterrupt, args: ExecutorArgs, graph: Graph) -> None:
    """Add to an interrupt what the step's nodes waited for, and the location of the first one.

    The location has the names that errors have: `node`, `op_type` and `device`.
    """
    waits = _cancelled_waits(args, graph)
    if waits:
        first = waits[0]
        error.__dict__.update(node=first.node, op_type=first.op, device=first.device)
    for wait in waits:
        error.add_note(str(wait))


def with_users(waits: Iterable[WaitRecord], graph: Graph) -> list[WaitRecord]:
    """Return waits, extended by the other nodes of a graph that use the same resources.

    A step that waits for an element of a queue mostly lacks another one that adds elements.
    """
    return [wait._replace(what=wait.what + _users_text(wait, graph)) for wait in waits]


def _cancelled_waits(args: ExecutorArgs, graph: Graph) -> list[WaitRecord]:
    own = args.own_cancellation
    return [] if own is None else with_users(own.cancelled_waits, graph)


def _users_text(wait: WaitRecord, graph: Graph) -> str:
    if not graph.has_node(wait.node):
        return ""
    node = graph.node(wait.node)
    users = [user for user in _users_of_resource(node) if user is not node]
    if not users:
        return ""
    names = ", ".join(f"'{user.name}' ({user.op})" for user in users[:_MAX_NAMED])
    more = f" and {len(users) - _MAX_NAMED} more nodes" if len(users) > _MAX_NAMED else ""
    return f", also used by {names}{more}"


def _users_of_resource(node: Node) -> list[Node]:
    """Return the nodes that use the same resource as a node; they may also be waiting."""
    for edge in node.in_edges:
        dtype = edge.src.output_types[edge.src_output]
        if dtype is resource or dtype.is_ref:
            users = [e.dst for e in edge.src.out_edges if e.src_output == edge.src_output]
            return [user for user in dict.fromkeys(users) if not user.op_def.traits.may_be_dead]
    return []
