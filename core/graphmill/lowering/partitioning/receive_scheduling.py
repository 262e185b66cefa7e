"""Receive scheduling: start receives shortly before their values are needed.

Without scheduling, all receives of a partition start with the step, and early tensors occupy
memory. Semantics: AddControlEdges of `tensorflow/core/graph/graph_partition.cc`, and SlackAnalysis
of `tensorflow/core/graph/costmodel.cc`. Unlike TensorFlow, we use the times of the whole graph for
each partition, so partitions cannot wait for each other in a cycle.
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
"""Number of epochs into which the time of a partition is divided."""
PREFETCH: Final = 6
"""Number of epochs by which a receive starts before its value is needed."""
_COPY: Final = 10  # time to copy a tensor between devices; a node takes 1


def start_times(graph: Graph) -> dict[str, int]:
    """Return the earliest start time of each node, if each node takes one unit of time.

    The result is empty for a graph with loops: a receive within an iteration cannot wait for a node
    outside it.
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
    """Delay each receive of a partition until shortly before its value is needed.

    Args:
        part: the partition.
        times: earliest start times of the nodes of the whole graph.
        ops: supplies the `ControlTrigger` op, for nodes that receives wait for.
    """
    receives = [n for n in part.nodes if is_receive(n) and not n.attrs["client_terminated"]]
    timed = sorted((times[node.name], node.id, node) for node in part.nodes if node.name in times)
    if not receives or not timed:
        return
    resolution = timed[-1][0] // EPOCHS + 1
    triggers: dict[int, Node] = {}
    for receive in receives:
        epoch = _needed_at(receive, times) // resolution - PREFETCH
        before = bisect_left(timed, (epoch * resolution,))
        if before > 0:
            if epoch not in triggers:
                triggers[epoch] = _trigger(part, timed[before - 1][2], epoch, ops)
            part.add_control_edge(triggers[epoch], receive)


def _needed_at(receive: Node, times: Mapping[str, int]) -> int:
    """Return the earliest start time of the nodes that need a received value."""
    start_times: list[int] = []
    nodes = [receive]
    for node in nodes:
        for edge in node.out_edges:
            if edge.dst.name in times:
                start_times.append(times[edge.dst.name])
            else:  # added by partitioning
                nodes.append(edge.dst)
    return min(start_times, default=0)


def _trigger(part: Graph, after: Node, epoch: int, ops: OpRegistry) -> Node:
    """Add a node that runs after another one, even if that one is dead."""
    device = after.assigned_device
    name, suffix = f"synch_{epoch}", 0
    while part.has_node(name):
        suffix += 1
        name = f"synch_{epoch}_{suffix}"
    trigger = part.add_node(name, ops.get("ControlTrigger"), device=device)
    trigger.assigned_device = device
    part.add_control_edge(after, trigger)
    return trigger
