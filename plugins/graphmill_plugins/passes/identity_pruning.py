"""Bypass `Identity` nodes, and remove nodes without consumers or effects.

Semantics: `tensorflow/core/grappler/optimizers/dependency_optimizer.cc`, for nodes without control
edges only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.graphs import ancestors, is_argument, is_next_iteration
from graphmill.spi.passes import effects_of_node
from graphmill_plugins.passes.options import is_enabled
from graphmill_plugins.passes.purity import is_forwarding

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions


def prune(graph: Graph, options: PassOptions) -> None:
    """Bypass forwarding nodes, then remove nodes that no result and no effect depends on."""
    if not is_enabled("identity_pruning", options.config):
        return
    # A loop whose results nobody reads may be what the step is run for: it has no last node.
    roots = [
        node
        for node in graph.nodes
        if not node.out_edges or is_next_iteration(node) or is_argument(node)
    ]
    kept = set(roots)
    for node in graph.nodes:
        if not is_forwarding(node) or node in kept or not _can_bypass(node):
            continue
        if not effects_of_node(node, options):
            source = node.in_edges[0]
            graph.redirect(node, 0, source.src, source.src_output)
    needed = ancestors(roots)
    graph.withdraw(node for node in graph.nodes if node not in needed)


def _can_bypass(node: Node) -> bool:
    source = node.in_edges[0]
    # Reading a reference is what the node does there: a later assignment must not show.
    if source.src.output_types[source.src_output].is_ref:
        return False
    has_control = node.control_in_edges or any(edge.is_control for edge in node.out_edges)
    return not has_control
