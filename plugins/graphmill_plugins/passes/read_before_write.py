"""Order free reads of a variable before the step's writes of it.

A graph may leave the order open: a learning rate is computed from the step counter, and the counter
is incremented, with no edge between the two. In TensorFlow a read that waits for nothing but the
variable runs when the step begins (tensorflow/core/common_runtime/executor.cc takes ready nodes in
the order in which they became ready), so it returns the value from before the step, and programs
have come to rely on that. Here a control edge enforces this order, for every executor and for
compiled code. Reads that wait for anything else are not ordered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import Source, topological_order
from graphmill.spi.graphs import is_back_edge

if TYPE_CHECKING:
    from graphmill.spi import Edge, Graph, Node
    from graphmill.spi.passes import PassOptions


def order_reads(graph: Graph, options: PassOptions) -> None:
    """Add a control edge from each free read of a variable to each write independent of it.

    A free read has no input but the variable, so no such edge can close a cycle.
    """
    del options
    pairs = [
        (read, write)
        for variable in graph.nodes
        if variable.op_def.traits.source is Source.VARIABLE
        for read, write in _reads_and_writes(variable)
    ]
    if not pairs:
        return
    bits = {read: 1 << index for index, read in enumerate(dict.fromkeys(read for read, _ in pairs))}
    seen = _reads_behind(graph, bits)
    for read, write in pairs:
        if not seen[write] & bits[read]:
            graph.add_control_edge(read, write)


def _reads_and_writes(variable: Node) -> list[tuple[Node, Node]]:
    if variable.control_in_edges:
        return []
    users = [edge for edge in variable.out_edges if not edge.is_control]
    writes = list(dict.fromkeys(edge.dst for edge in users if _writes(edge)))
    if not writes:
        return []
    reads = [edge.dst for edge in users if _only_reads(edge.dst)]
    return [(read, write) for read in reads for write in writes]


def _writes(edge: Edge) -> bool:
    """Return whether the consumer of an edge writes the variable on that edge."""
    node = edge.dst
    if not node.op_def.traits.writes:
        return False
    ranges = node.op_def.input_ranges(node.attrs)
    return any(
        use.writes and edge.dst_input in range(*ranges[use.input])
        for use in node.op_def.traits.resources or ()
    )


def _only_reads(node: Node) -> bool:
    """Return whether a node only reads a variable and has no other inputs."""
    if len(node.in_edges) != 1 or node.control_in_edges:
        return False
    traits = node.op_def.traits
    if traits.forwards:  # an op that turns a reference into a value reads the variable
        edge = node.in_edges[0]
        return edge.src.output_types[edge.src_output].is_ref and not node.output_types[0].is_ref
    uses = traits.resources or ()
    return bool(uses) and all(use.reads and not use.writes for use in uses)


def _reads_behind(graph: Graph, bits: dict[Node, int]) -> dict[Node, int]:
    """Return the set of reads that each node depends on, as a bit mask."""
    seen = dict.fromkeys(graph.nodes, 0)
    for node in topological_order(graph):
        mask = seen[node] | bits.get(node, 0)
        if mask:
            for edge in node.out_edges:
                if edge.dst in seen and not is_back_edge(edge):
                    seen[edge.dst] |= mask
    return seen
