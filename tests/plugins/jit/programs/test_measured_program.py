"""Traced steps measure the nodes in compiled clusters if the session requests it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import graph_def

import graphmill
from graphmill.explain import explain_all
from graphmill.ops import array, math
from graphmill.timeline import StepTrace, node_runs

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.explain.node_runs import NodeRun

jax = pytest.importorskip("jax")

from graphmill_plugins.jit.programs import compiler  # noqa: E402 - needs JAX

pytestmark = pytest.mark.jax

SIZE = 700
VALUE = np.full((SIZE, SIZE), 1.0 / SIZE, np.float32)


def product_and_more(x: Any) -> None:
    product = math.mat_mul(x, x, name="layer/product")
    negative = math.neg(array.gather(product, 0), name="negative")
    math.exp(negative, name="y")


def nested_loops(x: Any) -> None:
    def outer(i: Any, value: Any) -> Any:
        inner = graphmill.while_loop(
            lambda j, _: j < 3, lambda j, v: (j + 1, math.mat_mul(v, x, name="step")), [0, value]
        )
        return i + 1, inner[1]

    result = graphmill.while_loop(lambda i, _: i < 4, outer, [0, x], name="outer")[1]
    math.neg(array.gather(result, 0), name="y")


def session_of(make: Callable[[Any], None], **options: Any) -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        make(graph.placeholder("float32", [None, None], name="x"))
    section = {"jit": "eager", "jit_node_times": True, **options}
    return graphmill.Session(graph=graph, config={"graphmill": section})


def traced(session: graphmill.Session) -> dict[str, NodeRun]:
    trace = StepTrace()
    session.run("y:0", {"x:0": VALUE})
    session.run("y:0", {"x:0": VALUE}, run_metadata=trace)
    return {run.name: run for run in node_runs(trace)}


def length(run: NodeRun) -> int:
    return run.end - run.start


def shortest(steps: list[dict[str, NodeRun]], name: str) -> int:
    """Return the shortest run of a node: other processes interrupt some."""
    return min(length(runs[name]) for runs in steps)


def test_the_large_product_takes_most_of_the_time() -> None:
    with session_of(product_and_more) as session:
        steps = [traced(session) for _ in range(4)]
    runs = steps[-1]
    assert runs["layer/product"].note.startswith("measured by XLA's profiler: in cluster/y/")
    assert "measured by XLA's profiler together with" in runs["y"].note
    others = shortest(steps, "negative") + shortest(steps, "y")
    assert 0 < others < shortest(steps, "layer/product")


def test_nodes_of_nested_loops_are_measured() -> None:
    with session_of(nested_loops) as session:
        runs = traced(session)
    step = next(run for name, run in runs.items() if name.endswith("step"))
    loops = [run for name, run in runs.items() if name.endswith("While")]
    assert len(loops) == 2
    assert all(run.note.startswith("measured by XLA's profiler") for run in (step, *loops))
    assert 0 < length(step) <= min(map(length, loops)) < 2 * length(step)
    assert {"; 4 iterations" in run.note for run in loops} == {True, False}


def test_equal_clusters_are_measured_with_their_own_nodes() -> None:
    def make(x: Any) -> None:
        first = math.tanh(math.mat_mul(x, x, name="product_1"), name="tanh_1")
        math.tanh(math.mat_mul(first, first, name="product_2"), name="y")

    with session_of(make, jit_max_cluster_size=2) as session:
        runs = traced(session)
    notes = {name: runs[name].note for name in ("product_1", "tanh_1", "product_2", "y")}
    assert all(note.startswith("measured by XLA's profiler") for note in notes.values())
    assert notes["product_1"] != notes["product_2"]  # they name the clusters
    assert all(length(runs[name]) > 0 for name in notes)


def test_results_are_those_of_other_sessions() -> None:
    results = []
    for measures in (False, True):
        with session_of(product_and_more, jit_node_times=measures) as session:
            trace = StepTrace()
            results.append(session.run("y:0", {"x:0": VALUE}, run_metadata=trace))
    np.testing.assert_array_equal(*results)


def test_an_estimate_says_that_another_profile_runs(tmp_path: Any) -> None:
    with session_of(product_and_more) as session:
        with jax.profiler.trace(str(tmp_path)):
            runs = traced(session)
        note = runs["layer/product"].note
        assert note.startswith("estimate: in cluster/y/")
        assert "not measured: RuntimeError: Profile has already been started" in note
        assert traced(session)["layer/product"].note.startswith("measured by XLA's profiler")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the programs that are compiled, with the names of their operations."""
    texts: list[str] = []
    compile_program = compiler.compile_program

    def noted(lowered: Any, *args: Any) -> Any:
        texts.append(lowered.as_text(debug_info=True))
        return compile_program(lowered, *args)

    monkeypatch.setattr(compiler, "compile_program", noted)
    return texts


def test_programs_have_names_of_nodes_only_if_they_are_measured(programs: list[str]) -> None:
    for measures in (False, True):
        with session_of(product_and_more, jit_node_times=measures) as session:
            session.run("y:0", {"x:0": VALUE})
    without, named = programs
    assert "node:" not in without
    assert "module @jit_cluster " in without
    assert "node:layer:product" in named


def test_measured_programs_are_not_kept(tmp_path: Any) -> None:
    folder = tmp_path / "programs"
    with session_of(product_and_more, jit_cache_dir=str(folder)) as session:
        session.run("y:0", {"x:0": VALUE})
        assert "not cached: its nodes are measured" in str(explain_all(session))
    assert not folder.exists()


def test_a_program_that_overwrites_a_variable_is_measured() -> None:
    definition = graph_def(
        "v = VarHandleOp(dtype=float32, shape=[700, 700], shared_name='v')",
        "begin = AssignVariableOp(v, x)",
        "product = MatMul(x, x)",
        "add = AssignAddVariableOp(v, product)",
        "y = ReadVariableOp(v, dtype=float32, after=[add])",
        x="float32[700, 700]",
    )
    config = {"graphmill": {"jit": "eager", "jit_node_times": True}}
    graph = graphmill.Graph.from_graph_def(definition)
    with graphmill.Session(graph=graph, config=config) as session:
        session.run([], {"x:0": VALUE}, targets=["begin"])
        steps = []
        for count in range(2, 8):
            trace = StepTrace()
            value = session.run("y:0", {"x:0": VALUE}, run_metadata=trace)
            np.testing.assert_allclose(value, count * VALUE, rtol=1e-3)
            steps.append({run.name: run for run in node_runs(trace)})
    assert steps[-1]["product"].note.startswith("measured by XLA's profiler")
    assert shortest(steps[2:], "product") > shortest(steps[2:], "add")
