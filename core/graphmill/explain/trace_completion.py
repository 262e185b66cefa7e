"""Complete a step's statistics with nodes inside clusters and nodes without a kernel.

A traced step runs what other steps run. A cluster is one node there, so the nodes in it get shares
of its time (`cluster_members`), and their labels say that this is an estimate, unless the step has
measured them (`measured_members`). Arguments, results and constants run no kernel; they appear with
the times of the step, as in TensorFlow's statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from graphmill.explain.cluster_members import Members, shares
from graphmill.explain.compilation import find_compilation
from graphmill.explain.measured_members import measured_times
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_constant, is_result
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.runtime.steps.step_stats import (
    NodeStats,
    label_of,
    output_of_attr,
    thread_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphmill import proto
    from graphmill.explain.cluster_members import Member
    from graphmill.explain.compilation import ClusterRecord
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.runtime.steps.step_stats import (
        MeasuredCluster,
        OutputStats,
        StepStatsCollector,
        TimedRun,
    )


class _InstantNode(NamedTuple):
    """A node that runs no kernel."""

    name: str
    op: str
    outputs: tuple[OutputStats, ...]
    label: str
    is_result: bool


# Cached values must not refer to the graph: a value that holds its key keeps it alive forever.
_INSTANT_NODES: Final[WeakKeyDictionary[Graph, tuple[_InstantNode, ...]]] = WeakKeyDictionary()
_MEMBERS: Final[WeakKeyDictionary[Graph, dict[str, tuple[Member, ...]]]] = WeakKeyDictionary()


def complete_trace(
    collector: StepStatsCollector,
    items: Sequence[PerPartition],
    interpreted: Iterable[PerPartition],
    started: int,
    ended: int | None,
    ops: OpRegistry,
) -> None:
    """Add the nodes that a step has run without recording them, see `completion_of`."""
    completion_of(collector, items, interpreted, started, ended, ops)()


def completion_of(
    collector: StepStatsCollector,
    items: Sequence[PerPartition],
    interpreted: Iterable[PerPartition],
    started: int,
    ended: int | None,
    ops: OpRegistry,
) -> Callable[[], None]:
    """Return a function that adds the nodes that a step has run without recording them.

    It may be called at any time after the step: what may change until then is read now.

    Args:
        collector: the statistics of the step.
        items: the partitions that ran.
        interpreted: those from which they were built, with the nodes of the clusters.
        started: when the step began, from `now`.
        ended: when it ended; None if it failed, so that it has no results.
        ops: the ops of nodes in functions.
    """
    collector.note_threads()
    thread = thread_id()
    tiers = [{cluster.name: cluster.tier for cluster in _clusters(item.graph)} for item in items]

    def complete() -> None:
        iterations = collector.iterations()
        for item, tier_of in zip(items, tiers, strict=True):
            device = item.device.name
            add = collector.recorder(device)
            instant, clusters = _instant_nodes(item.graph), _clusters(item.graph)
            names = {*(node.name for node in instant), *(one.name for one in clusters)}
            recorded = collector.find(device, names)
            for cluster in clusters:
                whole = recorded.get(cluster.name)
                if whole is not None:
                    where = f"in {cluster.name}, {tier_of[cluster.name]}"
                    members = _members(cluster, item.graph, interpreted, ops)
                    measured = collector.measured(cluster.name)
                    for stats in _stats_of(whole, members, where, iterations, measured):
                        add(stats)
            for node in instant:
                when = ended if node.is_result else started
                if when is not None and node.name not in recorded:
                    add(_instant_run(node, thread, when))

    return complete


def _stats_of(
    whole: TimedRun | NodeStats,
    members: Sequence[Member],
    where: str,
    iterations: Mapping[str, float],
    measured: MeasuredCluster | None,
) -> Iterator[NodeStats]:
    """Return the statistics of the nodes in a cluster: measured, else its shares of the time."""
    if measured is None:
        return shares(whole, members, f"estimate: {where}", iterations)
    if measured.why_not:
        note = f"estimate: {where}; not measured: {measured.why_not}"
        return shares(whole, members, note, iterations)
    return measured_times(whole, members, where, iterations, measured.times)


def _clusters(graph: Graph) -> Sequence[ClusterRecord]:
    compilation = find_compilation(graph)
    return () if compilation is None else compilation.clusters


def _instant_run(node: _InstantNode, thread: int, when: int) -> NodeStats:
    return NodeStats(node.name, node.op, thread, when, when, when, node.outputs, node.label)


def _instant_nodes(graph: Graph) -> tuple[_InstantNode, ...]:
    """Return the nodes of a partition that run no kernel."""
    nodes = _INSTANT_NODES.get(graph)
    if nodes is None:
        everything = (graph.source, *graph.nodes)
        nodes = tuple(_instant_node(node) for node in everything if _runs_no_kernel(node))
        _INSTANT_NODES[graph] = nodes
    return nodes


def _members(
    cluster: ClusterRecord, graph: Graph, interpreted: Iterable[PerPartition], ops: OpRegistry
) -> tuple[Member, ...]:
    """Return the nodes in a cluster of a partition."""
    known = _MEMBERS.setdefault(graph, {})
    members = known.get(cluster.name)
    if members is None:
        originals = {node.name: node for item in interpreted for node in item.graph.nodes}
        found = Members(graph, originals, ops).of(cluster.name, cluster.nodes)
        members = known[cluster.name] = found
    return members


def _runs_no_kernel(node: Node) -> bool:
    is_boundary = is_argument(node) or is_result(node)
    return is_boundary or is_constant(node) or node is node.graph.source


def _instant_node(node: Node) -> _InstantNode:
    outputs = (output_of_attr(node.attrs["value"]),) if is_constant(node) else ()
    return _InstantNode(node.name, node.op, outputs, label_of(node), is_result(node))


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
    return function_def(name, graph, args, [node.sources[0] for node in results], others)
