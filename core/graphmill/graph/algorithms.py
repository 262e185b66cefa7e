"""Topological order and reachability, without recursion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.graph.node_roles import is_merge, is_next_iteration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Edge, Node


def is_back_edge(edge: Edge) -> bool:
    """Return whether an edge closes a loop: it goes from a `NextIteration` to a `Merge`."""
    return is_next_iteration(edge.src) and is_merge(edge.dst)


def topological_order(graph: Graph) -> list[Node]:
    """Return the nodes in topological order, ignoring the back edges of loops.

    Nodes that become ready at the same time are ordered by id.

    Raises:
        InvalidArgumentError: there is a cycle without an edge from a `NextIteration` to a `Merge`;
            the message names its nodes.
    """
    nodes, source = graph.nodes, graph.source
    waiting = {node: len(node.in_edges) for node in nodes}
    ends = set()  # few nodes end iterations, so other edges are not examined one by one
    for node in nodes:
        if node.control_in_edges:
            waiting[node] += sum(edge.src is not source for edge in node.control_in_edges)
        if is_next_iteration(node):
            ends.add(node)
    for node in ends:
        for edge in filter(is_back_edge, node.out_edges):
            waiting[edge.dst] -= 1
    order = [node for node in nodes if not waiting[node]]
    for node in order:
        for edge in node.out_edges:
            dst = edge.dst
            if dst in waiting and not (node in ends and is_back_edge(edge)):
                waiting[dst] -= 1
                if not waiting[dst]:
                    order.append(dst)
    if len(order) < len(nodes):
        cycle = _find_cycle([node for node in nodes if waiting[node]])
        raise InvalidArgumentError(
            "the graph has a cycle that is not a loop (a loop goes through NextIteration to "
            "Merge): " + " -> ".join(node.name for node in cycle),
            node=cycle[0].name,
            op_type=cycle[0].op,
        )
    return order


def ancestors(roots: Iterable[Node]) -> set[Node]:
    """Return `roots` and all nodes that they depend on through data and control edges."""
    visited = set(roots)
    stack = list(visited)
    while stack:
        node = stack.pop()
        for edge in _in_edges(node):
            if edge.src not in visited:
                visited.add(edge.src)
                stack.append(edge.src)
    return visited


def _in_edges(node: Node) -> list[Edge]:
    source = node.graph.source
    return [e for e in (*node.in_edges, *node.control_in_edges) if e.src is not source]


def _find_cycle(blocked: Sequence[Node]) -> list[Node]:
    """Return a cycle, with its first node repeated at the end.

    Args:
        blocked: nodes of which each has an input among them.
    """
    among = set(blocked)
    path: list[Node] = []
    position: dict[Node, int] = {}
    node = blocked[0]
    while node not in position:
        position[node] = len(path)
        path.append(node)
        node = next(
            edge.src for edge in _in_edges(node) if edge.src in among and not is_back_edge(edge)
        )
    cycle = [*path[position[node] :], node]
    return cycle[::-1]
