"""Constants that wait for nodes, as gradients' do, wait no longer; who reads them does instead.

TensorFlow orders a gradient's constants behind the forward pass so that they run in its loop or
branch. In a graph that is left without either they would only keep a step from being one cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.graphs import is_constant

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from graphmill.spi import Graph, Node


def free_constants(graph: Graph, in_loop: AbstractSet[Node]) -> None:
    """Hand the control inputs of constants on to the nodes that read them.

    What is dead stays so: a dead control input kills a constant's readers directly. Nodes of
    control flow, which may live with a dead input, keep their constants as they are, and so do
    nodes in loops.
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
