"""The nodes in clusters and their functions, with their shares of the cluster's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf import text_format

import graphmill
from graphmill import ops, proto
from graphmill.explain.cluster_members import Member, shares
from graphmill.runtime.steps.step_stats import NodeStats
from graphmill.timeline import StepTrace, node_runs

if TYPE_CHECKING:
    from graphmill.explain.node_runs import NodeRun

START = 1_700_000_000_000_000_000


def cluster_run(nanoseconds: int) -> NodeStats:
    return NodeStats("cluster", "_Cluster", 7, START, START, START + nanoseconds, ())


def times(members: tuple[Member, ...], nanoseconds: int, **iterations: float) -> dict[str, Any]:
    """Return start and length of each node, relative to the run of the cluster."""
    found = shares(cluster_run(nanoseconds), members, "estimate", iterations)
    return {one.node_name: (one.started - START, one.ended - one.started) for one in found}


def leaf(name: str) -> Member:
    return Member(name, "Neg", f"{name} = Neg()")


def loop(*inside: Member) -> Member:
    return Member("loop", "While", "loop = While()", "body", inside)


def test_nodes_have_equal_shares() -> None:
    assert times((leaf("a"), leaf("b")), 100) == {"a": (0, 50), "b": (50, 50)}


def test_a_call_has_the_shares_of_the_nodes_in_it() -> None:
    call = Member("f", "PartitionedCall", "f = PartitionedCall()", "", (leaf("b"), leaf("c")))
    expected = {"a": (0, 100), "f": (100, 200), "b": (100, 100), "c": (200, 100)}
    assert times((leaf("a"), call), 300) == expected


def test_a_loop_has_as_many_shares_as_iterations() -> None:
    expected = {"a": (0, 100), "loop": (100, 400), "b": (100, 400)}
    assert times((leaf("a"), loop(leaf("b"))), 500, body=4.0) == expected


def test_slices_end_where_the_cluster_ends() -> None:
    members = tuple(leaf(str(index)) for index in range(7))
    found = times((loop(*members),), 1_000_003, body=3.0)
    assert sum(found["6"]) == sum(found["loop"]) == 1_000_003


@pytest.mark.parametrize(
    ("iterations", "text"),
    [
        ({"body": 4.0}, "4 iterations, mean 100 ns"),
        ({"body": 0.0}, "no iteration"),
        ({}, "its iterations are not counted"),
    ],
)
def test_a_loop_names_its_iterations(iterations: dict[str, float], text: str) -> None:
    (found,) = shares(cluster_run(400), (loop(),), "estimate: in c, compiled", iterations)
    assert found.label == f"loop = While() (estimate: in c, compiled; {text})"


def nested_loops(*, with_strings: bool) -> graphmill.Graph:
    """Return a graph with 4 iterations around 3, which are compiled unless they have strings."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string" if with_strings else "float32", [], name="x")

        def step(value: Any) -> Any:
            if with_strings:
                return ops.string.string_lower(value, name="step")
            return ops.math.tanh(value, name="step")

        def outer(i: Any, value: Any) -> Any:
            inner = graphmill.while_loop(
                lambda j, _: j < 3, lambda j, v: (j + 1, step(v)), [0, value], name="inner"
            )
            return i + 1, inner[1]

        result = graphmill.while_loop(lambda i, _: i < 4, outer, [0, x], name="outer")[1]
        ops.array.shape(result, name="y") if with_strings else ops.math.neg(result, name="y")
    return graph


def last_runs(graph: graphmill.Graph, value: Any) -> dict[str, NodeRun]:
    trace = StepTrace()
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
        session.run("y:0", {"x:0": value})
        session.run("y:0", {"x:0": value}, run_metadata=trace)
    return {run.name: run for run in node_runs(trace)}


@pytest.mark.jax
def test_iterations_of_a_compiled_loop_are_known_if_they_are_static() -> None:
    runs = last_runs(nested_loops(with_strings=False), 1.0)
    outer, inner = (run for name, run in runs.items() if name.endswith("While"))
    assert "compiled; 4 iterations, mean" in outer.note
    assert "compiled; 12 iterations, mean" in inner.note
    step = runs["outer/inner/step"]
    assert outer.start <= inner.start <= step.start < step.end <= inner.end <= outer.end


@pytest.mark.jax
def test_iterations_of_straight_line_code_are_counted() -> None:
    runs = last_runs(nested_loops(with_strings=True), "A")
    outer, inner = (run for name, run in runs.items() if name.endswith("While"))
    assert "straight-line; 4 iterations, mean" in outer.note
    assert "straight-line; 12 iterations, mean" in inner.note


IS_SHORT = """
signature {
  name: "is_short" input_arg { name: "x" type: DT_STRING } output_arg { name: "y" type: DT_BOOL }
}
node_def { name: "length" op: "StringLength" input: "x" }
node_def {
  name: "four" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 4 } } }
}
node_def {
  name: "less" op: "Less" input: "length:output:0" input: "four:output:0"
  attr { key: "T" value { type: DT_INT32 } }
}
ret { key: "y" value: "less:z:0" }
"""
TWICE = """
signature {
  name: "twice" input_arg { name: "x" type: DT_STRING } output_arg { name: "y" type: DT_STRING }
}
node_def { name: "first" op: "NoOp" }
node_def {
  name: "step" op: "StringJoin" input: "x" input: "x" input: "^first"
  attr { key: "N" value { i: 2 } }
}
ret { key: "y" value: "step:output:0" }
"""


@pytest.mark.jax
def test_nodes_that_only_order_others_have_no_share() -> None:
    """Functions of TensorFlow contain them."""
    graph = graphmill.Graph()
    for text in (IS_SHORT, TWICE):
        graph.library.add(text_format.Parse(text, proto.FunctionDef()))
    with graph.as_default():
        x = graph.placeholder("string", [], name="x")
        result = ops.functional.while_([x], cond="is_short", body="twice", name="loop")
        ops.string.string_length(result[0], name="y")
    names = set(last_runs(graph, "A"))
    assert "step" in names
    assert "first" not in names
