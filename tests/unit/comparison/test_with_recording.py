"""A step is compared with the recording of another one."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import comparison, debug, ops
from graphmill.errors import InvalidArgumentError


def graph_with_a_loop(factor: float) -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        scaled = ops.math.mul(x, graph.constant(factor), name="scaled")
        loop = graphmill.while_loop(
            lambda i, _: i < 2, lambda i, value: [i + 1, value * 2.0], [0, scaled], name="loop"
        )
        ops.math.tanh(loop[1], name="y")
    return graph


def recording_of(factor: float, **limits: int) -> debug.Recording:
    with graphmill.Session(graph=graph_with_a_loop(factor)) as session:
        return debug.record(session, "y:0", {"x:0": [0.1, 0.2]}, **limits)


@pytest.mark.parametrize("mode", ["off", pytest.param("eager", marks=pytest.mark.jax)])
def test_the_recorded_step_agrees_with_itself(mode: str) -> None:
    config = {"graphmill": {"jit": mode}}
    with graphmill.Session(graph=graph_with_a_loop(2.0), config=config) as session:
        found = comparison.compare_with_recording(session, recording_of(2.0))
    assert found.agrees
    assert found.num_compared >= 2


def test_the_first_difference_is_outside_of_the_loop() -> None:
    with graphmill.Session(graph=graph_with_a_loop(2.5)) as session:
        found = comparison.compare_with_recording(session, recording_of(2.0))
    assert [output.tensor for output in found.outputs] == ["y:0"]
    assert found.path[-3:] != ()
    assert "scaled:0" in found.path
    assert "it has a value for each iteration of a loop" in found.skipped.values()


def test_a_recording_without_the_value_of_a_fetch_is_refused() -> None:
    with graphmill.Session(graph=graph_with_a_loop(2.0)) as session:
        recording = recording_of(2.0, max_value_bytes=0)
        with pytest.raises(InvalidArgumentError, match="no value of y:0"):
            comparison.compare_with_recording(session, recording)
