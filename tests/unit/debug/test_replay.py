"""`Replay`: a recorded step is repeated exactly, without its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import debug, errors, ops

if TYPE_CHECKING:
    from pathlib import Path


def random_step() -> graphmill.Graph:
    """A loop that adds random numbers and a variable, and counts in the variable."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        variable = graphmill.Variable(np.float32(1.0), name="v")

        def body(i: Any, a: Any) -> list[Any]:
            noise = ops.random.random_uniform([2], dtype="float32", name="noise")
            return [i + 1, a + noise]

        loop = graphmill.while_loop(lambda i, _: i < 3, body, [0, x], name="loop")
        added = variable.assign_add(1.0)
        ops.math.add(loop[1], added, name="y")
    return graph


def recorded_step(graph: graphmill.Graph) -> tuple[debug.Recording, Any]:
    with graphmill.Session(graph=graph) as session:
        session.run(graph.get_operation_by_name("v/Assign").name)
        with debug.Debugger(session, "y:0", {"x:0": [1.0, 2.0]}) as debugger:
            assert debugger.resume().reason == "end"
            return debugger.recording, debugger.results()


def test_random_numbers_and_variables_are_replayed(tmp_path: Path) -> None:
    graph = random_step()
    recording, result = recorded_step(graph)
    debug.save(recording, tmp_path / "step")
    with graphmill.Session(graph=graph) as session:  # its variable has no value
        again = debug.replay(session, debug.load(tmp_path / "step"))
        assert again.error is None
        np.testing.assert_array_equal(again.results(), [result])
        with pytest.raises(errors.NotFoundError, match="uninitialized"):
            session.run("y:0", {"x:0": [1.0, 2.0]})
    assert again.differences == []
    assert again.num_compared > 20


def test_effects_are_not_repeated(queue: graphmill.Graph) -> None:
    with graphmill.Session(graph=queue) as session:
        session.run("put", {"value:0": 2.0})
        recording = debug.record(session, "y:0")
        again = debug.replay(session, recording)  # the queue is empty now
        assert again.results() == [-2.0]


def test_a_node_that_computes_something_else_is_named() -> None:
    def graph_with(factor: float) -> graphmill.Graph:
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [], name="x")
            ops.math.neg(ops.math.mul(x, graph.constant(factor), name="scaled"), name="y")
        return graph

    with graphmill.Session(graph=graph_with(2.0)) as session:
        recording = debug.record(session, "y:0", {"x:0": 3.0})
    with graphmill.Session(graph=graph_with(5.0)) as session:
        again = debug.replay(session, recording)
    assert [str(difference) for difference in again.differences] == [
        "scaled:0: recorded float32[] 6.0, replayed float32[] 15.0",
        "y:0: recorded float32[] -6.0, replayed float32[] -15.0",
    ]


def test_a_new_effect_is_refused() -> None:
    def graph_with(is_random: bool) -> graphmill.Graph:
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("float32", [2], name="x")
            noise = ops.random.random_uniform([2], dtype="float32", name="noise")
            ops.math.add(x, noise if is_random else x, name="y")
        return graph

    with graphmill.Session(graph=graph_with(False)) as session:
        recording = debug.record(session, "y:0", {"x:0": [1.0, 2.0]})
    with graphmill.Session(graph=graph_with(True)) as session:
        again = debug.replay(session, recording)
    assert isinstance(again.error, errors.FailedPreconditionError)
    assert "'noise' has effects and did not run in the recording" in str(again.error)


def test_a_replay_is_stepped_through_like_a_step() -> None:
    graph = random_step()
    recording, _ = recorded_step(graph)
    with graphmill.Session(graph=graph) as session, debug.Replay(session, recording) as again:
        again.break_at_iteration("loop/*context", 2)
        assert again.resume().reason == "breakpoint"
        value = again.value("loop/noise")
        assert value is not None
        assert str(value) == str(recording.value("loop/noise", "loop/while_context:1"))


def test_a_recording_without_its_feeds_is_refused() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        b = ops.math.neg(a, name="b")
    with graphmill.Session(graph=graph) as session:
        with debug.Debugger(session, b, partial_feeds=[a]) as debugger:
            debugger.feed("a", 1.0)
            debugger.resume()
        with pytest.raises(errors.InvalidArgumentError, match="no value of the feed 'a:0'"):
            debug.replay(session, debugger.recording)


def test_an_error_is_replayed() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, [3], name="y")
    with graphmill.Session(graph=graph) as session:
        recording = debug.record(session, "y:0", {"x:0": [1.0]})
        again = debug.replay(session, recording)
    assert isinstance(again.error, errors.InvalidArgumentError)
    assert str(again.error).splitlines()[0] == recording.error.splitlines()[0]
