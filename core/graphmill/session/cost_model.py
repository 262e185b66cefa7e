"""Report the cost graph of a step: each node's run time and output sizes (row S6).

Semantics: `tensorflow/core/graph/costmodel.cc` (AddToCostGraphDef).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.steps.step_stats import write_output

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.proto.config_pb2 import GraphOptions
    from graphmill.proto.cost_graph_pb2 import CostGraphDef
    from graphmill.runtime.steps.step_stats import StepStatsCollector

_NANOS_PER_MICRO = 1000


def is_cost_step(options: GraphOptions, number: int) -> bool:
    """Return whether `build_cost_model` asks to measure a step.

    Args:
        options: the session's graph options.
        number: the number of earlier steps of the signature.
    """
    every = options.build_cost_model
    counted = number + 1 - options.build_cost_model_after
    return bool(every > 0 and counted > 0 and counted % every == 0)


def cost_graph(
    graph: Graph, device: str, collector: StepStatsCollector, message: CostGraphDef
) -> None:
    """Add the nodes of one partition to a `CostGraphDef`, with the statistics of `collector`.

    Times are microseconds, as in TensorFlow; sizes are bytes.
    """
    measured = {stats.node_name: stats for stats in collector.nodes(device)}
    ids = {node: len(message.node) + index for index, node in enumerate(graph.nodes)}
    for node, node_id in ids.items():
        entry = message.node.add(name=node.name, device=device, id=node_id)
        for edge in node.in_edges:
            entry.input_info.add(preceding_node=ids[edge.src], preceding_port=edge.src_output)
        entry.control_input.extend(
            ids[edge.src] for edge in node.control_in_edges if edge.src in ids
        )
        stats = measured.get(node.name)
        if stats is None:
            continue
        entry.compute_time = entry.compute_cost = (stats.ended - stats.started) // _NANOS_PER_MICRO
        for output in stats.outputs:
            info = entry.output_info.add(size=output.num_bytes, alias_input_port=-1)
            write_output(output, info)
