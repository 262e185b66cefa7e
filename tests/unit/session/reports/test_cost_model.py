"""The cost graph of a step (clause S6)."""

from __future__ import annotations

import types
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.plugin.host import Host
from graphmill.proto import RunMetadata
from graphmill.runtime.steps.step_stats import NodeStats, OutputStats, StepStatsCollector
from graphmill.session.executors_cache import ExecutorsAndKeys
from graphmill.session.reports.cost_model import measured_costs
from graphmill.testing.proto_builders import const_def, graph_def, node_def

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
MESSAGE = graph_def(
    node_def("x", "Placeholder", dtype="float32", shape=None),
    node_def("square", "MatMul", "x", "x", T="float32"),
    node_def("after", "NoOp", "^square"),
    const_def("c", 1.0),
    node_def("y", "AddV2", "square", "c", "^after", T="float32"),
)


def costs(config: Any, steps: int = 1, **options: Any) -> list[Any]:
    """Return the cost graph of each step."""
    x = np.ones((3, 3), np.float32)
    with graphmill.Session(graph=MESSAGE, config=config) as session:
        found = []
        for _ in range(steps):
            metadata = RunMetadata()
            session.run("y:0", {"x:0": x}, options=options, run_metadata=metadata)
            found.append(metadata.cost_graph)
    return found


EVERY = {"graph_options": {"build_cost_model": 1}}


def test_s6_each_node_of_the_partition_has_an_entry_with_its_edges() -> None:
    (message,) = costs(EVERY)
    nodes = {node.name: node for node in message.node}
    numbers = {node.id: name for name, node in nodes.items()}
    assert len(numbers) == len(nodes)
    assert {node.device for node in nodes.values()} == {CPU}
    inputs = [(numbers[i.preceding_node], i.preceding_port) for i in nodes["square"].input_info]
    assert inputs == [("_arg_x_0_0", 0)] * 2
    assert [numbers[i] for i in nodes["y"].control_input] == ["after"]
    assert [numbers[i] for i in nodes["after"].control_input] == ["square"]


def test_s6_executed_nodes_have_time_and_outputs() -> None:
    (message,) = costs(EVERY)
    node = next(node for node in message.node if node.name == "square")
    (output,) = node.output_info
    assert (output.dtype, output.size, output.alias_input_port) == (dtypes.float32.enum, 36, -1)
    assert [dim.size for dim in output.shape.dim] == [3, 3]
    assert node.compute_cost == node.compute_time >= 0


def test_s6_cost_model_is_off_by_default() -> None:
    """The cost model is off by default: tracing alone returns only step statistics."""
    assert [len(m.node) for m in costs({})] == [0]
    assert [len(m.node) for m in costs({}, trace_level="FULL_TRACE")] == [0]


@pytest.mark.parametrize(
    ("every", "after", "built"),
    [
        (1, 0, [1, 1, 1, 1, 1, 1]),
        (2, 0, [0, 1, 0, 1, 0, 1]),
        (1, 3, [0, 0, 0, 1, 1, 1]),
        (2, 1, [0, 0, 1, 0, 1, 0]),
        (0, 0, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_s6_cost_model_is_built_periodically(every: int, after: int, built: list[int]) -> None:
    config = {"graph_options": {"build_cost_model": every, "build_cost_model_after": after}}
    assert [int(len(message.node) > 0) for message in costs(config, steps=6)] == built


def test_costs_are_the_largest_of_all_measured_steps() -> None:
    executors = ExecutorsAndKeys(())
    graph = graph_from_graph_def(graph_def(const_def("c", 1.0)), Host(load_entry_points=False).ops)
    item: Any = types.SimpleNamespace(graph=graph, device=types.SimpleNamespace(name=CPU))
    found = []
    for micros, size in ((5, 8), (9, 4), (2, 16)):
        collector = StepStatsCollector()
        outputs = (OutputStats(dtypes.float32.enum, (size // 4,), size),)
        collector.record(CPU, NodeStats("c", "Const", 1, 0, 0, 1000 * micros, outputs))
        (node,) = measured_costs(executors, [item], collector).node
        found.append((node.compute_cost, node.output_info[0].size))
    assert found == [(5, 8), (9, 8), (9, 16)]


def test_sends_are_final() -> None:
    config = {"device_count": {"CPU": 2}, **EVERY}
    message = graph_def(
        node_def("x", "Placeholder", dtype="float32", shape=None),
        node_def("far", "Neg", "x", T="float32", device="/device:CPU:1"),
        node_def("y", "Neg", "far", T="float32", device="/device:CPU:0"),
    )
    metadata = RunMetadata()
    with graphmill.Session(graph=message, config=config) as session:
        session.run("y:0", {"x:0": 1.0}, options={}, run_metadata=metadata)
    final = [node.name for node in metadata.cost_graph.node if node.is_final]
    assert final
    assert all("_send" in name for name in final)
