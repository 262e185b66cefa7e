"""`Player`: goes through recordings of steps that ended, failed, or waited."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import debug, errors, ops


def test_a_player_stops_where_the_debugger_did(nested: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested) as session:
        recording = debug.record(session, "y:0", {"x:0": 15.0})
        with debug.Debugger(session, "y:0", {"x:0": 15.0}) as debugger:
            player = debug.Player(recording)
            player.step()  # the argument, which is there when a step begins
            for each in (player, debugger):
                each.break_on_nan()
                each.break_at_iteration("outer/*context", 1)
            while True:
                stops = debugger.resume(), player.resume()
                assert stops[0] == stops[1]
                if stops[0].reason == "end":
                    break
                assert player.iteration() == debugger.iteration()
            (value,) = player.results()
            assert value is not None
            np.testing.assert_array_equal(value.array, debugger.results())


def test_a_player_moves_by_iterations_and_out(nested: graphmill.Graph) -> None:
    with graphmill.Session(graph=nested) as session:
        player = debug.Player(debug.record(session, "y:0", {"x:0": 15.0}))
    player.break_at("outer/inner/log")
    player.resume()
    player.breakpoints.clear()
    inner = player.iteration()
    player.next_iteration()
    assert player.iteration().rpartition(":")[0] == inner.rpartition(":")[0]
    player.out()
    assert player.iteration() == inner.partition("/outer/inner")[0]
    player.out()
    assert player.iteration() == ""


def test_recording_of_a_functional_loop_has_its_iterations(
    functional: graphmill.GraphDef,
) -> None:
    with graphmill.Session(graph=functional) as session:
        player = debug.Player(debug.record(session, "loop:0", {"x:0": 1.0}))
    player.break_at_iteration("loop", 2)
    assert player.resume().reason == "breakpoint"
    assert player.iteration() == "loop:2"
    with pytest.raises(errors.NotFoundError, match=r"no loop 'lop'; did you mean 'loop'"):
        player.break_at_iteration("lop", 2)


def test_recording_of_a_waiting_step_ends_with_its_waits(queue: graphmill.Graph) -> None:
    with graphmill.Session(graph=queue) as session:
        player = debug.Player(debug.record(session, "y:0", wait=0))
    stop = player.resume()
    assert stop.reason == "waiting"
    assert "'take' (QueueDequeueV2)" in stop.text
    assert "'take'" in str(player.waits())
    with pytest.raises(errors.FailedPreconditionError, match="did not end"):
        player.results()


def test_a_recording_of_a_failure_ends_with_the_error() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, [3], name="y")
    with graphmill.Session(graph=graph) as session:
        player = debug.Player(debug.record(session, "y:0", {"x:0": [1.0]}))
    assert player.resume().reason == "error"
    with pytest.raises(errors.FailedPreconditionError, match="no results: Input to reshape"):
        player.results()


def test_an_empty_recording_is_at_its_end() -> None:
    player = debug.Player(debug.Recording())
    assert player.resume().reason == "waiting"
    assert player.where().startswith("next: none")
