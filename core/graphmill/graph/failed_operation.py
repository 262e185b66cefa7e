"""Find the operation of a graph at which an error arose, for `OpError.op`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from graphmill.graph.functions.function_calls import calls_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.proto.node_def_pb2 import NodeDef


def set_failed_operation(
    error: OpError, graph: Graph, graph_object: Callable[[], Graph | None] | None = None
) -> None:
    """Make `error.op` the operation of a graph at which the error arose, if the graph has it.

    If that is the failing node itself, `error.node_def` becomes its message, instead of that of the
    optimized node that ran; else it becomes `error.caller`.

    Args:
        error: the error, which is changed.
        graph: the graph of the session.
        graph_object: returns the graph object that the caller of the session sees, when it is first
            needed; None if `graph` is that object, or if the function returns None.
    """
    operation = failed_operation(graph, error)
    if operation is None:
        return
    error.op = operation if graph_object is None else partial(_as_seen, operation, graph_object)
    is_node_itself = operation.name == error.node
    # Clusters call functions too, but no program knows their names.
    error.caller = None if is_node_itself else operation.name
    if is_node_itself:
        error.node_def = partial(_node_def, operation)


def failed_operation(graph: Graph, error: OpError) -> Node | None:
    """Return the failing node of a graph, or the node that called the function it belongs to.

    A node of a function may have the name of another node of the graph; so where functions were
    called, the outermost call decides.
    """
    caller = None if error.caller is None else graph.operation_at(error.caller)
    if caller is not None and calls_of(caller):
        return caller
    return None if error.node is None else graph.operation_at(error.node)


def _node_def(node: Node) -> NodeDef:
    from graphmill.graph.formats.import_export import node_to_node_def  # few errors need it

    return node_to_node_def(node)


def _as_seen(operation: Node, graph_object: Callable[[], Graph | None]) -> Node:
    graph = graph_object()
    found = None if graph is None else graph.operation_at(operation.name)
    return operation if found is None else found
