"""`Debugger`: stop, step, inspect values, and go back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import debug, errors, ops

FAR = 15.0
"""With this input, `log` gives NaN in the second iteration of both loops."""


def at_first_nan(session: graphmill.Session, **options: Any) -> debug.Debugger:
    debugger = debug.Debugger(session, "y:0", {"x:0": FAR}, **options)
    debugger.break_on_nan()
    assert debugger.resume().reason == "breakpoint"
    return debugger


def test_a_nan_is_found_in_its_iteration(nested: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested) as session, at_first_nan(session) as debugger:
        last = debugger.recording.describe(debugger.position - 1)
        assert "log" in last
        assert last.endswith("-> float32[] nan")
        (first, *_) = debugger.recording.non_finite()
        assert first == debugger.position - 1


def test_a_driven_step_returns_the_results_of_an_ordinary_one(nested: graphmill.Graph) -> None:
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": 1e30}) as debugger,
    ):
        while debugger.step().reason == "step":
            pass
        np.testing.assert_array_equal(debugger.results(), session.run("y:0", {"x:0": 1e30}))


def test_a_breakpoint_stops_before_its_node_each_time(nested: graphmill.Graph) -> None:
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": FAR}) as debugger,
    ):
        breakpoint_ = debugger.break_at("*log*")
        stops = 0
        while debugger.resume().reason == "breakpoint":
            stops += 1
            assert "log" in (debugger.next_node() or "").lower()
    assert breakpoint_.num_hits == stops == len(debugger.recording.history("*log*"))


def test_a_breakpoint_at_the_first_node_is_not_missed(nested: graphmill.Graph) -> None:
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": FAR}) as debugger,
    ):
        debugger.break_at(str(debugger.next_node()))
        assert debugger.resume() == debugger.resume()._replace(
            reason="breakpoint", text=debugger_text(debugger), position=1
        )


def debugger_text(debugger: debug.Debugger) -> str:
    (breakpoint_,) = debugger.breakpoints.values()
    assert breakpoint_.num_hits == 1
    node = breakpoint_.pattern
    return f"breakpoint 1 (node {node}) before {node} (Enter)"


def test_a_breakpoint_can_be_at_an_iteration(nested: graphmill.Graph) -> None:
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": FAR}) as debugger,
    ):
        frame = "outer/outer_context"
        debugger.break_at_iteration("outer/*context", 2)
        assert debugger.resume().reason == "breakpoint"
        assert debugger.iteration() == f"{frame}:2" or debugger.iteration().endswith(":2")
        where = debugger.iteration()
        debugger.next_iteration()
        assert debugger.iteration() != where
        debugger.breakpoints.clear()
        debugger.out()
        debugger.out()
        assert debugger.iteration() == ""


def test_a_breakpoint_can_be_at_a_shape() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.mul(ops.array.expand_dims(x, 1), ops.array.expand_dims(x, 0), name="y")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "y:0", {"x:0": [1.0, 2.0]}) as debugger,
    ):
        debugger.break_on_shape([None, 2])
        texts = [debugger.resume().text, debugger.resume().text]
        assert any("ExpandDims" in text for text in texts)
        assert "[?, 2]" in texts[0]


def test_going_back_does_not_undo_effects(nested: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested) as session, at_first_nan(session) as debugger:
        end = debugger.position
        here = debugger.where()
        debugger.back(5)
        assert debugger.is_in_past
        assert debugger.position == end - 5
        assert debugger.where().endswith("(in the past)")
        assert debugger.step().position == end - 4
        assert debugger.resume().position == end
        assert debugger.where() == here
        debugger.breakpoints.clear()
        assert debugger.resume().reason == "end"
        with pytest.raises(errors.InvalidArgumentError, match="is not recorded"):
            debugger.go_to(10**6)
        assert np.isnan(debugger.results())


def test_values_are_those_of_the_position(nested: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested) as session, at_first_nan(session) as debugger:
        name = debugger.recording.name(debugger.recording.events[-1].instance)
        value = debugger.value(f"{name}:0")
        assert value is not None
        assert value.array is not None
        assert np.isnan(value.array)
        debugger.back()
        earlier = debugger.value(name)
        assert earlier is not None
        assert earlier.is_finite
        assert str(debugger.value("x")) == f"float32[] {FAR}"
        with pytest.raises(errors.NotFoundError, match=r"no node 'lgo'.*"):
            debugger.value("lgo")
        with pytest.raises(errors.InvalidArgumentError, match="no output 3"):
            debugger.value(f"{name}:3")
        with pytest.raises(errors.NotFoundError, match="has not run in iteration 'nowhere:1'"):
            debugger.value(name, "nowhere:1")


def test_counters_of_the_recording_are_those_of_the_executor(nested: graphmill.Graph) -> None:
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": FAR}) as debugger,
    ):
        while debugger.step().reason == "step":
            position = debugger.position
            live = {n[:3]: n for n in debugger.waiting() if n.state == "pending"}
            past = {n[:3]: n for n in debugger.recording.waiting_at(position)}
            for key, node in live.items():
                if "deferred" not in node.missing and past[key].missing:
                    assert node.pending == past[key].pending, node


def test_waits_on_an_empty_queue_name_the_nodes_that_use_it(queue: graphmill.Graph) -> None:
    with graphmill.Session(graph=queue) as session, debug.Debugger(session, "y:0") as debugger:
        stop = debugger.resume(wait=0)
        assert stop.reason == "waiting"
        assert "'take' (QueueDequeueV2) waits for an element of FIFOQueue" in stop.text
        assert "'put' (QueueEnqueueV2)" in stop.text
        states = {node.name: node.state for node in debugger.waiting()}
        assert states["take"] == "running"
        session.run("put", {"value:0": 2.0})
        assert debugger.resume().reason == "end"
        assert debugger.results() == -2.0


def test_closing_ends_a_step_that_waits(queue: graphmill.Graph) -> None:
    with graphmill.Session(graph=queue) as session, debug.Debugger(session, "y:0") as debugger:
        debugger.resume(wait=0)
        debugger.close()
        assert debugger.is_done
        session.run("put", {"value:0": 2.0})  # nothing has taken it meanwhile
        assert session.run("y:0") == -2.0


def test_an_interrupt_stops_the_debugger_not_the_step(
    queue: graphmill.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    with graphmill.Session(graph=queue) as session, debug.Debugger(session, "y:0") as debugger:
        debugger.step(wait=0)

        def interrupted(*_: Any, **__: Any) -> bool:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(debugger._step, "run_posted", interrupted)
            patch.setattr(debugger, "_ready_run", lambda: None)
            assert debugger.resume().reason == "interrupted"
        session.run("put", {"value:0": 3.0})
        assert debugger.resume().reason == "end"


def test_an_error_stops_at_its_node() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, [3], name="y")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "y:0", {"x:0": [1.0]}) as debugger,
    ):
        stop = debugger.resume()
        assert stop.reason == "error"
        assert stop.text.startswith("node 'y' failed: InvalidArgumentError")
        assert isinstance(debugger.error, errors.InvalidArgumentError)
        assert debugger.recording.error
        assert debugger.resume().reason == "error"
        with pytest.raises(errors.InvalidArgumentError):
            debugger.results()


def test_functions_are_stepped_into(functional: graphmill.GraphDef) -> None:
    with (
        graphmill.Session(graph=functional) as session,
        debug.Debugger(session, "loop:0", {"x:0": 1.0}) as debugger,
    ):
        if any("Merge" in node.op for node in debugger.recording.graphs[0].nodes):
            pytest.skip("the loop was lowered to frames")
        debugger.break_at_iteration("loop", 2)
        assert debugger.resume().reason == "breakpoint"
        assert debugger.iteration() == "loop:2"
        debugger.breakpoints.clear()
        debugger.break_at("loop/sum")
        debugger.resume()
        assert (debugger.next_node(), debugger.iteration()) == ("loop/sum", "loop:2")
        debugger.breakpoints.clear()
        debugger.out()
        assert debugger.iteration() != "loop:2"
        assert debugger.resume().reason == "end"
        assert debugger.results() == session.run("loop:0", {"x:0": 1.0}) == 16.0


def test_a_partial_run_waits_for_its_feeds() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        b = graph.placeholder("float32", [], name="b")
        total = ops.math.add(ops.math.neg(a, name="first"), b, name="total")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, total, partial_feeds=[a, b]) as debugger,
    ):
        debugger.feed("a", 2.0)
        stop = debugger.resume(wait=0)
        assert stop.reason == "waiting"
        assert stop.text.endswith("(_Recv) waits for the feed of 'b:0'")
        waiting = {node.name: node for node in debugger.waiting()}
        assert waiting["total"].pending == 1
        debugger.feed("b:0", 5.0)
        assert debugger.resume().reason == "end"
        assert debugger.results() == 3.0


def test_several_devices_are_stepped_and_a_failure_ends_all() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.device("/device:CPU:1"):
            y = ops.array.reshape(x, [2], name="y")
        with graph.device("/device:CPU:0"):
            ops.math.neg(y, name="z")
    with graphmill.Session(graph=graph, config={"deviceCount": {"CPU": 2}}) as session:
        with debug.Debugger(session, "z:0", {"x:0": [1.0, 2.0]}) as debugger:
            assert len(debugger.recording.runs) == 2
            assert debugger.resume().reason == "end"
            np.testing.assert_array_equal(debugger.results(), [-1.0, -2.0])
        with debug.Debugger(session, "z:0", {"x:0": [1.0]}) as debugger:
            assert debugger.resume().reason == "error"
            assert debugger.is_done


def test_unknown_names_suggest_near_ones(nested: graphmill.Graph) -> None:
    with nested.as_default():
        ops.math.neg(1.0, name="unused")
    with (
        graphmill.Session(graph=nested) as session,
        debug.Debugger(session, "y:0", {"x:0": FAR}) as debugger,
    ):
        with pytest.raises(errors.NotFoundError, match=r"no node 'outer/Mrge'; did you mean"):
            debugger.break_at("outer/Mrge")
        with pytest.raises(errors.NotFoundError, match="does not run in this step"):
            debugger.break_at("unused")
        with pytest.raises(errors.NotFoundError, match="pattern matches no node"):
            debugger.break_on_nan("nowhere/*")
        with pytest.raises(errors.NotFoundError, match=r"no loop 'otuer'.*loops: "):
            debugger.break_at_iteration("otuer", 1)
        with pytest.raises(errors.NotFoundError, match="breakpoints: there are none"):
            debugger.delete(1)


def test_values_that_cannot_be_fed_are_refused() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        b = ops.math.neg(a, name="b")
    with graphmill.Session(graph=graph) as session:
        with debug.Debugger(session, b, partial_feeds=[a]) as debugger:
            with pytest.raises(
                errors.InvalidArgumentError, match=r"'c:0' cannot be fed; left.*a:0"
            ):
                debugger.feed("c", 1.0)
            debugger.feed("a", 1.0)
            with pytest.raises(errors.InvalidArgumentError, match="left to feed: nothing"):
                debugger.feed("a", 1.0)
        with (
            debug.Debugger(session, b, {a: 1.0}) as debugger,
            pytest.raises(errors.InvalidArgumentError, match="not a partial run"),
        ):
            debugger.feed("a", 1.0)


def test_a_session_that_is_closed_ends_the_step(queue: graphmill.Graph) -> None:
    session = graphmill.Session(graph=queue)
    debugger = debug.Debugger(session, "y:0")
    debugger.resume(wait=0)
    session.close()
    assert debugger.resume().reason == "error"
    assert isinstance(debugger.error, errors.CancelledError)
    debugger.close()


def test_the_end_names_breakpoints_that_were_never_met() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.neg(x, name="y")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "y:0", {"x:0": 1.0}) as debugger,
    ):
        debugger.break_on_nan()
        debugger.break_at("y")
        assert debugger.resume().reason == "breakpoint"
        assert debugger.resume().text.endswith("nodes; never hit: breakpoint 1 (nan *)")
