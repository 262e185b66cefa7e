"""Bypass `Identity` nodes, and remove nodes without consumers or effects.

Semantics: `tensorflow/core/grappler/optimizers/dependency_optimizer.cc`, but nodes with control
edges are not bypassed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.graphs import ancestors, is_argument, is_next_iteration
from graphmill_plugins.passes.options import is_enabled
from graphmill_plugins.passes.purity import is_forwarding

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions


def prune(graph: Graph, options: PassOptions) -> None:
    """Bypass forwarding nodes, then remove nodes that no result and no effect depends on."""
    if not is_enabled("identity_pruning", options.config):
        return
    # A step may run for the effects of a loop whose results are not read. Each node of such a loop
    # may have consumers, so the NextIteration nodes are roots, too.
    roots = [
        node
        for node in graph.nodes
        if not node.out_edges or is_next_iteration(node) or is_argument(node)
    ]
    root_set = set(roots)
    for node in graph.nodes:
        if node.op_def.traits.forwards and node not in root_set and _can_bypass(node, options):
            source = node.in_edges[0]
            graph.redirect(node, 0, source.src, source.src_output)
    needed = ancestors(roots)
    graph.withdraw(node for node in graph.nodes if node not in needed)


def _can_bypass(node: Node, options: PassOptions) -> bool:
    has_control = node.control_in_edges or any(edge.is_control for edge in node.out_edges)
    if has_control or not is_forwarding(node, options):
        return False
    source = node.in_edges[0]
    # Such a node reads a reference: bypassing it would make later assignments visible.
    return not source.src.output_types[source.src_output].is_ref
