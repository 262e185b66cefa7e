"""Report the cost graph of a signature: each node's run time and output sizes (clause S6).

Semantics: `tensorflow/core/graph/costmodel.cc` (AddToCostGraphDef).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.node_roles import is_send
from graphmill.runtime.steps.step_stats import write_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.proto.config_pb2 import GraphOptions
    from graphmill.proto.cost_graph_pb2 import CostGraphDef
    from graphmill.runtime.steps.step_stats import NodeStats, OutputStats, StepStatsCollector
    from graphmill.session.executors_cache import ExecutorsAndKeys

_NANOS_PER_MICRO = 1000


def is_cost_step(options: GraphOptions, number: int) -> bool:
    """Return whether `build_cost_model` requests that a step be measured.

    Args:
        options: the session's graph options.
        number: the number of earlier steps of the signature.
    """
    every = options.build_cost_model
    counted = number + 1 - options.build_cost_model_after
    return bool(every > 0 and counted > 0 and counted % every == 0)


class CostModel:
    """The largest time and size of each node over the measured steps of a signature.

    Threads: two steps that are measured at once may lose one of their measurements, no more.
    """

    def __init__(self) -> None:
        self._largest: dict[tuple[str, str], NodeStats] = {}

    def add(self, device: str, collector: StepStatsCollector) -> None:
        """Add the nodes of a step on one device."""
        for stats in collector.nodes(device):
            key = (device, stats.node_name)
            largest = self._largest.get(key)
            self._largest[key] = stats if largest is None else _larger(largest, stats)

    def find(self, device: str, node: str) -> NodeStats | None:
        """Return the measurements of a node; None if it has not run."""
        return self._largest.get((device, node))


def measured_costs(
    executors: ExecutorsAndKeys, items: Sequence[PerPartition], collector: StepStatsCollector
) -> CostGraphDef:
    """Return the cost graph of a signature after another step was measured.

    Args:
        executors: the executors of the signature, which keep the measurements.
        items: the partitions that ran.
        collector: the statistics of the step.
    """
    if executors.costs is None:
        executors.costs = CostModel()
    from graphmill.proto import cost_graph_pb2  # few sessions ask for costs

    message = cost_graph_pb2.CostGraphDef()
    for item in items:
        executors.costs.add(item.device.name, collector)
        cost_graph(item.graph, item.device.name, executors.costs, message)
    return message


def cost_graph(graph: Graph, device: str, model: CostModel, message: CostGraphDef) -> None:
    """Add the nodes of one partition to a `CostGraphDef`, with the measurements of `model`.

    Times are microseconds, as in TensorFlow; sizes are bytes.
    """
    ids = {node: len(message.node) + index for index, node in enumerate(graph.nodes)}
    for node, node_id in ids.items():
        entry = message.node.add(name=node.name, device=device, id=node_id)
        entry.is_final = is_send(node)
        for edge in node.in_edges:
            entry.input_info.add(preceding_node=ids[edge.src], preceding_port=edge.src_output)
        entry.control_input.extend(
            ids[edge.src] for edge in node.control_in_edges if edge.src in ids
        )
        stats = model.find(device, node.name)
        if stats is None:
            continue
        entry.compute_time = entry.compute_cost = _duration(stats) // _NANOS_PER_MICRO
        for output in stats.outputs:
            info = entry.output_info.add(size=output.num_bytes, alias_input_port=-1)
            write_output(output, info)


def _larger(largest: NodeStats, stats: NodeStats) -> NodeStats:
    """Return the slower of two runs of a node, with the larger outputs."""
    slower = max(largest, stats, key=_duration)
    outputs = max(largest.outputs, stats.outputs, key=_num_bytes)
    return slower._replace(outputs=outputs)


def _duration(stats: NodeStats) -> int:
    return stats.ended - stats.started


def _num_bytes(outputs: Iterable[OutputStats]) -> int:
    return sum(output.num_bytes for output in outputs)
