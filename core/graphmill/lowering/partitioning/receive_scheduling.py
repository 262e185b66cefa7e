"""Receive scheduling: start receives shortly before their values are needed.

Without it all receives of a part begin with the step, and the tensors that come first wait in
memory. Semantics: AddControlEdges of `tensorflow/core/graph/graph_partition.cc`, and SlackAnalysis
of `tensorflow/core/graph/costmodel.cc`; unlike there, times are those of the whole graph also
within a part, so that parts cannot wait for each other in a circle.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from graphmill.graph.algorithms import is_back_edge, topological_order
from graphmill.graph.node_roles import is_enter, is_receive

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry

EPOCHS: Final = 100
"""Into how many epochs the time of a part is divided."""
PREFETCH: Final = 6
"""How many epochs before its value is needed a receive begins."""
_COPY: Final = 10  # what a tensor takes from device to device, where a node takes 1


def start_times(graph: Graph) -> dict[str, int]:
    """Return when each node could begin at the earliest, if each took one unit of time.

    Empty for a graph with loops: a receive that belongs to an iteration cannot wait for a node
    outside of it.
    """
    if any(is_enter(node) for node in graph.nodes):
        return {}
    times: dict[str, int] = {}
    for node in topological_order(graph):
        time = 0
        for edge in (*node.in_edges, *node.control_in_edges):
            if edge.src.name not in times or is_back_edge(edge):
                continue  # the source of the graph
            is_copied = edge.src.assigned_device != node.assigned_device and not edge.is_control
            time = max(time, times[edge.src.name] + 1 + (_COPY if is_copied else 0))
        times[node.name] = time
    return times


def schedule_receives(part: Graph, times: Mapping[str, int], ops: OpRegistry) -> None:
    """Let each receive of a part wait until shortly before a node needs its value.

    Args:
        part: a device's part.
        times: when the nodes of the whole graph could begin.
        ops: where the op of the nodes that receives wait for comes from.
    """
    receives = [n for n in part.nodes if is_receive(n) and not n.attrs["client_terminated"]]
    known = sorted((times[node.name], node.id, node) for node in part.nodes if node.name in times)
    if not receives or not known:
        return
    resolution = known[-1][0] // EPOCHS + 1
    triggers: dict[int, Node] = {}
    for receive in receives:
        epoch = _needed_at(receive, times) // resolution - PREFETCH
        before = bisect_left(known, (epoch * resolution,))
        if before > 0:
            if epoch not in triggers:
                triggers[epoch] = _trigger(part, known[before - 1][2], epoch, ops)
            part.add_control_edge(triggers[epoch], receive)


def _needed_at(receive: Node, times: Mapping[str, int]) -> int:
    """Return when the first node could begin that needs what is received."""
    found: list[int] = []
    nodes = [receive]
    for node in nodes:
        for edge in node.out_edges:
            if edge.dst.name in times:
                found.append(times[edge.dst.name])
            else:  # made by the partitioning
                nodes.append(edge.dst)
    return min(found, default=0)


def _trigger(part: Graph, after: Node, epoch: int, ops: OpRegistry) -> Node:
    """Add a node that runs after another one, even if that is dead."""
    device = after.assigned_device
    name, number = f"synch_{epoch}", 0
    while part.has_node(name):
        number += 1
        name = f"synch_{epoch}_{number}"
    made = part.add_node(name, ops.get("ControlTrigger"), device=device)
    made.assigned_device = device
    part.add_control_edge(after, made)
    return made
