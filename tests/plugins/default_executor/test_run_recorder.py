"""What a traced run records: when nodes were ready, and what they computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import ops
from graphmill.registry import Provenance
from graphmill.timeline import StepTrace, node_runs
from graphmill_plugins.default_executor.seeded_executor import SeededExecutorFactory

if TYPE_CHECKING:
    from graphmill.explain.node_runs import NodeRun

OFF = {"graphmill": {"jit": "off"}}


def traced(session: graphmill.Session, fetches: Any, feeds: Any = None) -> dict[str, NodeRun]:
    """Return the runs of a step's nodes by name."""
    trace = StepTrace()
    session.run(fetches, feeds, run_metadata=trace)
    return {run.name: run for run in node_runs(trace)}


def test_nodes_that_are_ready_together_have_one_ready_time() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        shared = ops.math.exp(x, name="shared")
        kinds = enumerate((ops.math.tanh, ops.math.sin, ops.math.cos))
        branches = [
            ops.math.neg(op(shared, name=f"first_{i}"), name=f"last_{i}") for i, op in kinds
        ]
        ops.math.add_n(branches, name="y")
    with graphmill.Session(graph=graph, config=OFF) as session:
        runs = traced(session, "y:0", {"x:0": 1.0})
    firsts = [runs[f"first_{i}"] for i in range(3)]
    assert {run.scheduled for run in firsts} == {runs["shared"].end}
    for i in range(3):
        assert runs[f"last_{i}"].scheduled == runs[f"first_{i}"].end
    assert runs["y"].scheduled == max(runs[f"last_{i}"].end for i in range(3))


def test_a_node_after_a_wait_is_ready_when_the_value_arrives() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"])
        put = ops.data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)])
        got = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="got")[0]
        ops.math.neg(got, name="y")
    with graphmill.Session(graph=graph, config=OFF) as session:
        runs = traced(session, ["y:0", put])
    assert runs["got"].end <= runs["y"].scheduled <= runs["y"].start


def test_outputs_are_those_of_each_step() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.neg(x, name="y")
    with graphmill.Session(graph=graph, config=OFF) as session:
        seen = [
            (runs["y"].outputs, runs["y"].num_bytes)
            for size in (2, 2, 3)
            for runs in [traced(session, "y:0", {"x:0": [1.0] * size})]
        ]
    two, three = (("float32[2]",), 8), (("float32[3]",), 12)
    assert seen == [two, two, three]


def test_nodes_with_several_outputs_describe_all() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4], name="x")
        left, right = ops.array.split(0, x, num_split=2, name="parts")
        ops.math.add_v2(left, right, name="y")
    with graphmill.Session(graph=graph, config=OFF) as session:
        for _ in range(2):
            runs = traced(session, "y:0", {"x:0": [1.0] * 4})
            assert runs["parts"].outputs == ("float32[2]", "float32[2]")


@pytest.mark.parametrize("seed", [1, 2])
def test_a_queue_in_random_order_is_traced_without_ready_times(seed: int) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.add_v2(ops.math.exp(x, name="a"), ops.math.neg(x, name="b"), name="y")
    host = graphmill.Host()
    host.executors.add("SEEDED", SeededExecutorFactory(seed), owner=Provenance("tests"))
    config = {**OFF, "experimental": {"executor_type": "SEEDED"}}
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        runs = traced(session, "y:0", {"x:0": 1.0})
    assert all(runs[name].scheduled == runs[name].start for name in ("a", "b", "y"))
