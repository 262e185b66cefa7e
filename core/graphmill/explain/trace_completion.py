"""Complete a step's statistics with nodes inside clusters and nodes without a kernel.

A traced step runs what other steps run. A cluster is one node there, so the nodes in it get equal
shares of its time, and their labels say that this is an estimate. Arguments, results and constants
run no kernel; they appear with the times of the step, as in TensorFlow's statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from graphmill.explain.compilation import find_compilation
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_constant, is_result
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.runtime.steps.step_stats import (
    NodeStats,
    label_of,
    name_of,
    output_of_attr,
    thread_id,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill import proto
    from graphmill.explain.compilation import ClusterRecord
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.steps.step_stats import OutputStats, StepStatsCollector, TimedRun


class _Member(NamedTuple):
    """A node in a cluster."""

    name: str
    op: str
    label: str


class _InstantNode(NamedTuple):
    """A node that runs no kernel."""

    name: str
    op: str
    outputs: tuple[OutputStats, ...]
    label: str
    is_result: bool


# What is kept must not refer to the graph: a value that holds its key keeps it alive for ever.
_INSTANT_NODES: Final[WeakKeyDictionary[Graph, tuple[_InstantNode, ...]]] = WeakKeyDictionary()
_MEMBERS: Final[WeakKeyDictionary[Graph, dict[tuple[str, str], tuple[_Member, ...]]]] = (
    WeakKeyDictionary()
)


def complete_trace(
    collector: StepStatsCollector,
    items: Sequence[PerPartition],
    interpreted: Iterable[PerPartition],
    started: int,
    ended: int | None,
) -> None:
    """Add the nodes that a step has run without recording them, see `completion_of`."""
    completion_of(collector, items, interpreted, started, ended)()


def completion_of(
    collector: StepStatsCollector,
    items: Sequence[PerPartition],
    interpreted: Iterable[PerPartition],
    started: int,
    ended: int | None,
) -> Callable[[], None]:
    """Return a function that adds the nodes that a step has run without recording them.

    It may be called at any time after the step: what may change until then is taken now.

    Args:
        collector: the statistics of the step.
        items: the partitions that ran.
        interpreted: those from which they were built, with the nodes of the clusters.
        started: when the step began, from `now`.
        ended: when it ended; None if it failed, so that it has no results.
    """
    collector.note_threads()
    thread = thread_id()
    tiers = [{cluster.name: cluster.tier for cluster in _clusters(item.graph)} for item in items]

    def complete() -> None:
        for item, tier_of in zip(items, tiers, strict=True):
            runs = collector.runs(item.device.name)
            recorded = {name_of(run): run for run in runs}
            for cluster in _clusters(item.graph):
                whole = recorded.get(cluster.name)
                if whole is not None:
                    tier = tier_of[cluster.name]
                    runs.extend(_shares(whole, _members(cluster, tier, item.graph, interpreted)))
            for node in _instant_nodes(item.graph):
                when = ended if node.is_result else started
                if when is not None and node.name not in recorded:
                    runs.append(_instant_run(node, thread, when))

    return complete


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
    cluster: ClusterRecord, tier: str, graph: Graph, interpreted: Iterable[PerPartition]
) -> tuple[_Member, ...]:
    """Return the nodes in a cluster of a partition, with the labels for its tier."""
    known = _MEMBERS.setdefault(graph, {})
    members = known.get((cluster.name, tier))
    if members is None:
        originals = {node.name: node for item in interpreted for node in item.graph.nodes}
        note = f"(estimate: in {cluster.name}, {tier})"
        members = tuple(_member(cluster, name, originals.get(name), note) for name in cluster.nodes)
        known[cluster.name, tier] = members
    return members


def _member(cluster: ClusterRecord, name: str, node: Node | None, note: str) -> _Member:
    label = f"{name} = in {cluster.name}()" if node is None else label_of(node)
    return _Member(name, "" if node is None else node.op, f"{label} {note}")


def _shares(whole: TimedRun | NodeStats, members: Sequence[_Member]) -> Iterable[NodeStats]:
    """Yield the statistics of the nodes in a cluster, each with an equal share of its time."""
    share = (whole.ended - whole.started) // max(len(members), 1)
    for position, (name, op, label) in enumerate(members):
        started = whole.started + position * share
        times = (whole.scheduled, started, started + share)
        yield NodeStats(name, op, whole.thread_id, *times, (), label)


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
    return function_def(name, graph, args, [node.inputs[0] for node in results], others)
