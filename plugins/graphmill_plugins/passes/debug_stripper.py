"""Remove the nodes that only check or report values, if the session requests it.

Semantics: `tensorflow/core/grappler/optimizers/debug_stripper.cc`. Values that were computed
only to be checked or reported are still computed: inputs that a removed node
does not return become control inputs of the node that replaces it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.passes import free_name_in

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.passes import PassOptions


def strip(graph: Graph, options: PassOptions) -> None:
    """Replace each node whose op diagnoses values: by `Identity`, or by `NoOp` without outputs."""
    for node in [node for node in graph.nodes if node.op_def.traits.diagnoses]:
        graph.replace_node(node, _replacement(graph, node, options))


def _replacement(graph: Graph, node: Node, options: PassOptions) -> Node:
    passed = list(node.sources[: len(node.output_types)])
    attrs = {"T": node.output_types[0].base_dtype} if passed else {}
    edges = (*node.control_in_edges, *node.in_edges[len(passed) :])
    replacement = graph.add_node(
        free_name_in(graph, node.name, "stripped"),
        options.host.ops.get("Identity" if passed else "NoOp"),
        passed,
        [src for src in dict.fromkeys(edge.src for edge in edges) if src is not graph.source],
        attrs,
        node.device,
    )
    replacement.assigned_device = node.assigned_device
    return replacement
