"""The records of a traced run: when nodes were ready, and their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import ops
from graphmill.graph.functions.function_def import function_def
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.registry import Provenance
from graphmill.timeline import StepTrace, node_runs
from graphmill_plugins.default_executor.seeded_executor import SeededExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Callable

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


def add_function(graph: graphmill.Graph, name: str, compute: Callable[[Any], Any]) -> FuncAttr:
    """Add a function of one integer to the library of a graph."""
    body = graphmill.Graph()
    body.library = graph.library
    with body.as_default():
        i = body.placeholder("int32", [], "i")
        result = compute(i)
    graph.library.add(function_def(name, body, [i.op], [(result.op, result.value_index)]))
    return FuncAttr(name, {})


def nested_loops() -> graphmill.Graph:
    """Return a graph with a functional loop of two iterations that calls one of three."""
    graph = graphmill.Graph()
    less_than_three = add_function(graph, "less_than_three", lambda i: ops.math.less(i, 3))
    step = add_function(graph, "step", lambda i: ops.math.add_v2(i, 1, name="inner_step"))
    less_than_six = add_function(graph, "less_than_six", lambda i: ops.math.less(i, 6))

    def outer_step(i: Any) -> Any:
        start = ops.math.sub(i, i, name="outer_step")
        inner = ops.functional.while_([start], cond=less_than_three, body=step, name="inner")
        return ops.math.add_v2(i, inner[0])

    call_inner = add_function(graph, "call_inner", outer_step)
    with graph.as_default():
        x = graph.placeholder("int32", [], name="x")
        loop = ops.functional.while_([x], cond=less_than_six, body=call_inner, name="outer")
        ops.math.neg(loop[0], name="y")
    return graph


@pytest.mark.parametrize("executor", ["DEFAULT", "SINGLE_THREADED_EXECUTOR"])
def test_nodes_in_functional_loops_have_iterations(executor: str) -> None:
    trace = StepTrace()
    config = {**OFF, "experimental": {"executor_type": executor}}
    with graphmill.Session(graph=nested_loops(), config=config) as session:
        assert session.run("y:0", {"x:0": 0}, run_metadata=trace) == -6
    iterations: dict[str, list[str]] = {}
    for run in node_runs(trace):
        iterations.setdefault(run.name, []).append(run.iteration)
    assert iterations["y"] == [""]
    assert iterations["outer_step"] == ["outer:0", "outer:1"]
    assert iterations["inner_step"] == [f"outer:{i}/inner:{j}" for i in range(2) for j in range(3)]


def test_functions_called_in_a_frame_have_its_iterations() -> None:
    graph = graphmill.Graph()
    step = add_function(graph, "step", lambda i: ops.math.add_v2(i, 1, name="in_function"))
    with graph.as_default():
        x = graph.placeholder("int32", [], name="x")
        loop = graphmill.while_loop(
            lambda i: i < 2,
            lambda i: ops.functional.partitioned_call([i], Tout=["int32"], f=step),
            [x],
            name="loop",
        )
        ops.array.identity(loop, name="y")
    trace = StepTrace()
    with graphmill.Session(graph=graph, config=OFF) as session:
        session.run("y:0", {"x:0": 0}, run_metadata=trace)
    named = [run.iteration for run in node_runs(trace) if run.name.endswith("in_function")]
    assert [path.rpartition(":")[2] for path in named] == ["0", "1"]
    assert all(path.startswith("loop/") for path in named)
