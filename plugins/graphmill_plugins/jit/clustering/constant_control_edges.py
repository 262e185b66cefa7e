"""Move control inputs of constants to the nodes that read the constants.

TensorFlow adds control edges from the forward pass to the constants of a gradient, so that they run
in its loop or branch. Outside of both, such an edge only keeps a step from being one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.graphs import is_constant

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from graphmill.spi import Graph, Node


def move_constant_control_edges(graph: Graph, in_loop: AbstractSet[Node]) -> None:
    """Move the control inputs of constants to the nodes that read them.

    Deadness is preserved: a dead control input makes the readers dead directly. Constants that
    control-flow nodes read, which may be alive with a dead input, and those in loops are skipped.
    """
    for node in graph.nodes:
        if not is_constant(node) or not node.control_in_edges or node in in_loop:
            continue
        before = [edge for edge in node.control_in_edges if edge.src is not graph.source]
        after = {edge.dst: None for edge in node.out_edges if edge.dst is not graph.sink}
        if not before or any(reader.op_def.traits.is_control_flow for reader in after):
            continue
        for edge in before:
            graph.remove_control_edge(edge)
        for reader in after:
            graph.add_control_edges([edge.src for edge in before], reader)
