"""Values are found with their iterations, and unknown names and iterations are explained."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import debug, errors, ops
from graphmill.debug.value_lookup import find_value


@pytest.fixture(scope="module")
def recording() -> debug.Recording:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        loop = graphmill.while_loop(
            lambda i, _: i < 3,
            lambda i, y: [i + 1, ops.math.mul(y, 2.0, name="twice")],
            [0, x],
            name="loop",
        )
        ops.math.neg(loop[1], name="y")
    with graphmill.Session(graph=graph) as session:
        return debug.record(session, "y:0", {"x:0": 1.0})


def test_value_has_its_iteration(recording: debug.Recording) -> None:
    latest = find_value(recording, "loop/twice", None, None)
    assert latest == (None, "loop/while_context:3")  # dead: the loop has ended
    first = find_value(recording, "loop/twice:0", "loop/while_context:0", None)
    assert (str(first.value), first.iteration) == ("float32[] 2.0", "loop/while_context:0")
    assert find_value(recording, "y", None, None).iteration == ""


@pytest.mark.parametrize(
    ("tensor", "iteration", "message"),
    [
        ("twice", None, "no node 'twice'; did you mean 'loop/twice'?"),
        ("wic", None, "no node 'wic'; did you mean 'loop/twice' or 'loop/twice/y'?"),
        ("nothing", None, r"no node 'nothing'; it has \d+ nodes, such as '"),
        ("loop/twice", "3", "in iteration '3'; it has run in 4, the latest is 'loop/while_cont"),
        ("y", "3", "in iteration '3'; it is outside of loops"),
    ],
)
def test_error_of_a_missing_value_explains_it(
    recording: debug.Recording, tensor: str, iteration: str | None, message: str
) -> None:
    with pytest.raises(errors.NotFoundError, match=message):
        find_value(recording, tensor, iteration, None)


def test_an_output_that_does_not_exist_is_refused(recording: debug.Recording) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="has 1 output, so no output 3"):
        find_value(recording, "y:3", None, None)


def test_node_that_does_not_run_is_distinguished_from_an_unknown_one() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.neg(x, name="y")
        ops.math.exp(x, name="other")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "y:0", {x: 1.0}) as debugger,
        pytest.raises(errors.NotFoundError, match="node 'other' does not run in this step"),
    ):
        debugger.value("other:0")


def test_a_fetch_that_another_node_computes_has_its_value() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.array.identity(ops.math.neg(x, name="negative"), name="y")
    with (
        graphmill.Session(graph=graph) as session,
        debug.Debugger(session, "y:0", {x: 1.0}) as debugger,
    ):
        assert "y" not in debugger.recording.names()
        with pytest.raises(errors.NotFoundError, match="'y:0' has not been computed yet"):
            debugger.value("y")
        debugger.resume()
        assert str(debugger.value("y:0")) == "float32[] -1.0"
