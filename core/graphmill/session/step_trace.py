"""Complete a step's `RunMetadata` with nodes inside clusters and nodes without a kernel.

A traced step runs what other steps run. A cluster is one node there, so the nodes in it get equal
shares of its time, and their labels say that this is an estimate. Arguments, results and constants
run no kernel; they appear with the times of the step, as in TensorFlow's statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.explain.compilation import find_compilation
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_constant, is_result
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.runtime.steps.step_stats import NodeStats, label_of, output_of_attr, thread_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill import proto
    from graphmill.explain.compilation import ClusterRecord
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.steps.step_stats import StepStatsCollector


def complete_trace(
    collector: StepStatsCollector,
    items: Sequence[PerPartition],
    interpreted: Iterable[PerPartition],
    started: int,
    ended: int | None,
) -> None:
    """Add the nodes that a step has run without recording them.

    Args:
        collector: the statistics of the step.
        items: the partitions that ran.
        interpreted: those from which they were built, with the nodes of the clusters.
        started: when the step began, from `now`.
        ended: when it ended; None if it failed, so that it has no results.
    """
    originals = {node.name: node for item in interpreted for node in item.graph.nodes}
    for item in items:
        device = item.device.name
        recorded = {stats.node_name: stats for stats in collector.nodes(device)}
        compilation = find_compilation(item.graph)
        for cluster in compilation.clusters if compilation is not None else ():
            whole = recorded.get(cluster.name)
            if whole is not None:
                for stats in _members(cluster, whole, originals):
                    collector.record(device, stats)
        for node in (item.graph.source, *item.graph.nodes):
            if node.name not in recorded and _runs_no_kernel(node):
                when = ended if is_result(node) else started
                if when is not None:
                    collector.record(device, _instant(node, when))


def _members(
    cluster: ClusterRecord, whole: NodeStats, originals: dict[str, Node]
) -> Iterable[NodeStats]:
    """Yield the statistics of the nodes in a cluster, each with an equal share of its time."""
    share = (whole.ended - whole.started) // max(len(cluster.nodes), 1)
    for position, name in enumerate(cluster.nodes):
        node = originals.get(name)
        label = f"{name} = in {cluster.name}()" if node is None else label_of(node)
        started = whole.started + position * share
        yield NodeStats(
            name,
            "" if node is None else node.op,
            whole.thread_id,
            whole.scheduled,
            started,
            started + share,
            (),
            f"{label} (estimate: in {cluster.name}, {cluster.tier})",
        )


def _runs_no_kernel(node: Node) -> bool:
    is_boundary = is_argument(node) or is_result(node)
    return is_boundary or is_constant(node) or node is node.graph.source


def _instant(node: Node, when: int) -> NodeStats:
    outputs = (output_of_attr(node.attrs["value"]),) if is_constant(node) else ()
    return NodeStats(node.name, node.op, thread_id(), when, when, when, outputs, label_of(node))


def partition_graph(graph: Graph) -> proto.GraphDef:
    """Return the message of a partition; the library contains the bodies of its clusters."""
    message = graph_to_graph_def(graph)
    for node in graph.nodes:
        for value in node.attrs.values():
            body = getattr(value, "body", None)
            if isinstance(value, FuncAttr) and body is not None:
                message.library.function.append(_body_def(value.name, body.graph))
    return message


def _body_def(name: str, graph: Graph) -> proto.FunctionDef:
    """Return the body of a cluster as a function."""
    args = [node for node in graph.nodes if is_argument(node)]
    results = [node for node in graph.nodes if is_result(node)]
    others = [node for node in graph.nodes if not (is_argument(node) or is_result(node))]
    for nodes in (args, results):
        nodes.sort(key=lambda node: int(node.attrs["index"]))
    return function_def(name, graph, args, [node.inputs[0] for node in results], others)
