"""Compiled loops with unknown trip counts can be cancelled and are correct (clauses S6, S11)."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import graphmill
from graphmill.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from graphmill.explain import explain_all
from graphmill.ops import data_flow, math, state
from graphmill.timeline import StepTrace, node_runs

pytestmark = [pytest.mark.jax, pytest.mark.divided]

pytest.importorskip("jax")

from graphmill_plugins.jit.programs import preemptible_loops  # noqa: E402 - needs JAX

EAGER = {"graphmill": {"jit": "eager", "jitMinClusterSize": 1}}
SOON = 60.0


def a_loop(x):
    """Count up to x in floats."""
    _, value = graphmill.while_loop(lambda i, v: v < x, lambda i, v: (i + 1, v + 1.0), [0, 0.0])
    return value


def a_loop_in_a_loop(x):
    def turn(value):
        inner = graphmill.while_loop(lambda v: v < value, lambda v: (v + 1.0,), [0.0])
        return value + 1.0 + math.minimum(inner, 0.0)

    return graphmill.while_loop(lambda v: v < x, turn, [0.0])


def two_loops(x):
    return a_loop(a_loop(x) * 2.0) + 1.0


def a_loop_in_a_conditional(x):
    return graphmill.cond(x > 3.0, lambda: a_loop(x), lambda: x)


def session_of(build):
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = build(x)
    return graphmill.Session(graph=graph, config=EAGER), x, y


def signatures(session):
    steps = explain_all(session)
    clusters = [c for step in steps for made in step.compilations.values() for c in made.clusters]
    return [one for cluster in clusters for one in cluster.signatures]


BUILDS = [a_loop, a_loop_in_a_loop, two_loops, a_loop_in_a_conditional]


@pytest.mark.parametrize("build", BUILDS)
def test_insufficient_iteration_budget_is_rerun_s6(build, monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_MAX_RUN_NS", 10**15)  # however busy the machine is
    session, x, y = session_of(build)
    with session:
        for value in (0.0, 4.0, 300.0, 0.0, 600.0):
            expected = {two_loops: 2 * value + 1}.get(build, value)
            assert session.run(y, {x: value}) == expected
        assert all(one.num_straight == 0 for one in signatures(session))


@pytest.mark.parametrize("build", [a_loop, two_loops])
def test_long_loop_continues_in_stages_s6(build, monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_LONG_NS", 0)  # each time is long
    session, x, y = session_of(build)
    with session:
        for value in (0.0, 4.0, 500.0, 3.0):
            expected = {two_loops: 2 * value + 1}.get(build, value)
            assert session.run(y, {x: value}) == expected
        (signature,) = signatures(session)
        assert (signature.num_straight, signature.num_compiled) == (0, 4)


def counted_iterations(session, y, feeds):
    """Return the iterations of each loop that the trace of a step reports."""
    trace = StepTrace()
    session.run(y, feeds, run_metadata=trace)
    loops = [run for run in node_runs(trace) if run.op == "StatelessWhile"]
    return [run.note.partition("; ")[2].partition(", ")[0] for run in loops]


@pytest.mark.parametrize("is_long", [False, True])
def test_traces_count_the_iterations_of_a_loop_s6(is_long, monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_MAX_RUN_NS", 10**15)
    if is_long:
        monkeypatch.setattr(preemptible_loops, "_LONG_NS", 0)
    session, x, y = session_of(a_loop)
    with session:
        for value in (5.0, 0.0, 300.0, 7.0):
            text = f"{value:.0f} iterations" if value else "no iteration"
            assert counted_iterations(session, y, {x: value}) == [text]


@pytest.mark.parametrize("is_long", [False, True])
def test_traces_count_loops_that_share_a_budget_s6(is_long, monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_MAX_RUN_NS", 10**15)
    if is_long:
        monkeypatch.setattr(preemptible_loops, "_LONG_NS", 0)
    session, x, y = session_of(two_loops)
    with session:
        for value in (3.0, 500.0, 500.0, 3.0):
            expected = [f"{value:,.0f} iterations", f"{2 * value:,.0f} iterations"]
            assert counted_iterations(session, y, {x: value}) == expected


def test_traces_count_nested_loops_s6(monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_MAX_RUN_NS", 10**15)
    session, x, y = session_of(a_loop_in_a_loop)
    with session:
        for value in (4.0, 30.0, 1.0):
            inner = value * (value - 1) / 2
            expected = {f"{value:.0f} iterations", f"{inner:.0f} iterations"} - {"0 iterations"}
            expected |= set() if inner else {"no iteration"}
            assert set(counted_iterations(session, y, {x: value})) == expected


def test_traces_count_a_loop_in_a_conditional_s6():
    session, x, y = session_of(a_loop_in_a_conditional)
    with session:
        assert counted_iterations(session, y, {x: 5.0}) == ["5 iterations"]
        assert counted_iterations(session, y, {x: 2.0}) == ["no iteration"]


def test_traces_count_the_loops_of_clusters_that_share_a_program_s6():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        source, ends = x, []
        for name in ("one", "two"):
            with graph.name_scope(name):
                queue = data_flow.fifo_queue_v2(component_types=["float32"])
                put = data_flow.queue_enqueue_v2(queue, [a_loop_in_a_loop(source * 2.0)])
                with graph.control_dependencies([put]):
                    ends += data_flow.queue_dequeue_v2(queue, component_types=["float32"])
                source = ends[-1]
    with graphmill.Session(graph=graph, config=EAGER) as session:
        assert session.run(ends, {x: 3.0}) == [6.0, 12.0]
        assert [one.compiles[-1].outcome for one in signatures(session)] == ["compiled", "shared"]
        trace = StepTrace()
        session.run(ends, {x: 3.0}, run_metadata=trace)
    counted = {}
    for run in node_runs(trace):
        if run.op == "StatelessWhile":
            text = run.note.partition("; ")[2].partition(", ")[0]
            counted.setdefault(run.name.partition("/")[0], set()).add(text)
    assert sorted(map(sorted, counted.values())) == [
        ["12 iterations", "66 iterations"],
        ["15 iterations", "6 iterations"],
    ]


def test_long_inner_loops_are_interpreted_s6(monkeypatch):
    monkeypatch.setattr(preemptible_loops, "_MAX_RUN_NS", 0)
    session, x, y = session_of(a_loop_in_a_loop)
    with session:
        assert session.run(y, {x: 30.0}) == 30.0
        (signature,) = signatures(session)
        assert "cannot be cancelled" in signature.reason
        assert session.run(y, {x: 30.0}) == 30.0


@pytest.mark.parametrize("build", BUILDS)
def test_a_timeout_stops_a_loop_s6(build):
    session, x, y = session_of(build)
    with session:
        session.run(y, {x: 4.0})
        with pytest.raises(DeadlineExceededError):
            session.run(y, {x: np.inf}, options=graphmill.RunOptions(timeout_in_ms=100))
        assert session.run(y, {x: 0.0}) in (0.0, 1.0)


@pytest.mark.parametrize("build", BUILDS)
def test_closing_the_session_stops_a_loop_s11(build):
    session, x, y = session_of(build)
    session.run(y, {x: 4.0})
    errors = []

    def run():
        try:
            session.run(y, {x: np.inf})
        except CancelledError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    session.close()
    thread.join(SOON)
    assert not thread.is_alive()
    assert len(errors) == 1


def test_a_stopped_loop_leaves_variables_as_they_were_s6():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        handle = state.var_handle_op(dtype="float32", shape=[], shared_name="v")
        start = state.assign_variable_op(handle, 1.0)
        add = state.assign_add_variable_op(handle, a_loop(x))
        with graph.control_dependencies([add]):
            after = state.read_variable_op(handle, dtype="float32")
        now = state.read_variable_op(handle, dtype="float32")
    with graphmill.Session(graph=graph, config=EAGER) as session:
        session.run([], targets=[start])
        assert session.run(after, {x: 4.0}) == 5.0
        with pytest.raises(DeadlineExceededError):
            session.run(after, {x: np.inf}, options=graphmill.RunOptions(timeout_in_ms=50))
        assert session.run(now) == 5.0
        assert session.run(after, {x: 2.0}) == 7.0


def test_errors_in_long_loops_are_those_of_the_interpreter_e8():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", [], name="x")
        y = graphmill.while_loop(lambda i: i < x, lambda i: i + math.floor_div(0, 99 - i) + 1, [0])
    with graphmill.Session(graph=graph, config=EAGER) as session:
        assert session.run(y, {x: 90}) == 90
        with pytest.raises(InvalidArgumentError, match="zero"):
            session.run(y, {x: 1000})
