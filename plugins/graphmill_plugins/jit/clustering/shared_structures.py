"""Find tensor arrays, lists and stacks that are also used outside of a cluster.

A program represents such a structure as arrays, so all its uses must be in one cluster. If one is
outside (in a loop that cannot be compiled, say), all nodes that use the structure stay outside, and
the rest of the cluster is compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill_plugins.jit.ir.handles import HANDLE_TYPES
from graphmill_plugins.jit.ir.invariant_nodes import is_source_or_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Edge, Graph, Node

REASON: Final = "it uses a tensor array, list or stack that is also used outside of its cluster"


def shared_structures(
    graph: Graph,
    clusters: Sequence[Sequence[Node]],
    names_variable: Callable[[Node], bool] = is_source_or_argument,
    is_free: Callable[[Edge], bool] = lambda _: False,
) -> dict[Node, str]:
    """Return the cluster members that use shared structures, with the reason.

    Args:
        graph: the graph of the clusters.
        clusters: the proposed clusters.
        names_variable: whether a node's handles are only of variables.
        is_free: whether programs can take and return the value of an edge.
    """
    cluster_of = {node: index for index, members in enumerate(clusters) for node in members}
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        leader.setdefault(node, node)
        while leader[node] is not node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    for node in graph.nodes:
        for edge in node.in_edges:
            if _may_carry_structure(edge) and not (names_variable(edge.src) or is_free(edge)):
                leader[find(edge.src)] = find(node)
    users: dict[Node, set[Any]] = {}  # the clusters that use each structure, None for outside
    for node in leader:
        users.setdefault(find(node), set()).add(cluster_of.get(node))
    return {node: REASON for node in leader if node in cluster_of and len(users[find(node)]) > 1}


def _may_carry_structure(edge: Edge) -> bool:
    """Return whether an edge may carry a tensor array, list or stack."""
    dtype = edge.src.output_types[edge.src_output].base_dtype
    return dtype.name in HANDLE_TYPES
