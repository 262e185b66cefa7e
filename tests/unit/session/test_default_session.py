"""Sessions as `tf.compat.v1` has them: default sessions, default graphs, positional options."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors


@pytest.fixture
def graph() -> graphmill.Graph:
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", [], name="x")
        graphmill.ops.math.mul(x, np.float32(2), name="y")
    return made


def test_with_block_makes_session_and_graph_the_default(graph: Any) -> None:
    assert graphmill.get_default_session() is None
    with graphmill.Session(graph=graph) as session:
        assert graphmill.get_default_session() is session
        assert graphmill.get_default_graph() is graph
        z = graphmill.ops.math.add_v2(graph.get_tensor_by_name("y:0"), np.float32(1))
        assert z.eval({"x:0": 3.0}) == 7
    assert graphmill.get_default_session() is None
    with pytest.raises(errors.FailedPreconditionError, match="no default graph"):
        graphmill.get_default_graph()


def test_sessions_without_graph_take_the_default_graph(graph: Any) -> None:
    with graph.as_default(), graphmill.Session() as session:
        assert session.graph is graph
        assert session.run("y:0", {"x:0": 2.0}) == 4
    with graphmill.Session() as empty:
        assert list(empty.graph.nodes) == []


def test_default_sessions_nest(graph: Any) -> None:
    one, other = graphmill.Session(graph=graph), graphmill.Session(graph=graph)
    with one.as_default():
        with other.as_default() as inner:
            assert inner is other
            assert graphmill.get_default_session() is other
        assert graphmill.get_default_session() is one
    assert graphmill.get_default_session() is None
    assert one.run("y:0", {"x:0": 1.0}) == 2  # it was not closed
    for session in (one, other):
        session.close()


def test_default_session_belongs_to_the_thread(graph: Any) -> None:
    found: list[Any] = []
    with graphmill.Session(graph=graph):
        thread = threading.Thread(target=lambda: found.append(graphmill.get_default_session()))
        thread.start()
        thread.join()
    assert found == [None]


def test_eval_and_run_take_a_session(graph: Any) -> None:
    y = graph.get_tensor_by_name("y:0")
    with graph.as_default():
        variable = graphmill.Variable(1.0)
        init = graphmill.global_variables_initializer()
    with pytest.raises(errors.FailedPreconditionError, match="tensor 'y:0': there is no default"):
        y.eval()
    with pytest.raises(errors.FailedPreconditionError, match="operation 'init': there is no"):
        init.run()
    session = graphmill.Session(graph=graph)
    assert y.eval({"x:0": 4.0}, session) == 8
    assert init.run(session=session) is None
    assert session.run(variable) == 1
    session.close()


def test_interactive_session_is_default_until_closed(graph: Any) -> None:
    session = graphmill.InteractiveSession(graph=graph)
    try:
        assert graphmill.get_default_session() is session
        assert graph.get_tensor_by_name("y:0").eval({"x:0": 1.0}) == 2
    finally:
        session.close()
    assert graphmill.get_default_session() is None


def test_interactive_session_without_graph_has_one_to_build_in() -> None:
    session = graphmill.InteractiveSession()
    try:
        built = graphmill.ops.math.add_v2(np.float32(1), np.float32(2))
        assert built.graph is session.graph
        assert built.eval() == 3
    finally:
        session.close()


@pytest.mark.parametrize("kind", ["message", "bytes"])
def test_graph_of_a_session_of_a_message_can_be_built_on(graph: Any, kind: str) -> None:
    message = graph.as_graph_def()
    graph_message = message if kind == "message" else message.SerializeToString()
    with graphmill.Session(graph=graph_message) as session:
        assert session.run("y:0", {"x:0": 1.0}) == 2
        assert isinstance(session.graph, graphmill.Graph)
        assert session.graph is session.graph
        assert session.graph_def == message
        y = session.graph.get_tensor_by_name("y:0")
        with session.graph.as_default():
            z = graphmill.ops.math.add_v2(y, np.float32(5), name="z")
        assert session.run([y, z], {"x:0": 1.0}) == [2, 7]
        more = graphmill.Graph()
        with more.as_default():
            more.constant(9.0, name="added")
        session.extend(more.as_graph_def())
        assert session.run("added:0") == 9
        assert session.graph.get_tensor_by_name("added:0").eval() == 9


def test_options_and_metadata_are_positional_as_in_tensorflow(graph: Any) -> None:
    metadata = graphmill.RunMetadata()
    options = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
    with graphmill.Session(graph=graph) as session:
        assert session.run("y:0", {"x:0": 1.0}, options, metadata) == 2
        assert session.sess_str == ""
    assert len(metadata.step_stats.dev_stats) > 0


def test_callable_accepts_options_for_each_call(graph: Any) -> None:
    options = graphmill.RunOptions(trace_level=graphmill.RunOptions.FULL_TRACE)
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph) as session:
        call = session.make_callable("y:0", ["x:0"], accept_options=True)
        assert call(2.0) == 4
        assert call(2.0, options=options, run_metadata=metadata) == 4
        with pytest.raises(errors.InvalidArgumentError, match="expected 1 values, got 2"):
            call(2.0, 3.0, options=options)
        with pytest.raises(TypeError, match="options"):
            session.make_callable("y:0", ["x:0"])(2.0, options=options)
    assert len(metadata.step_stats.dev_stats) > 0


def test_none_stands_for_no_feeds(graph: Any) -> None:
    with graph.as_default():
        graph.constant(1.0, name="one")
    with graphmill.Session(graph=graph) as session:
        assert session.run("one:0", None) == 1
        assert session.make_callable("one:0", None)() == 1
        handle = session.partial_run_setup("one:0", None)
        assert session.partial_run(handle, "one:0", None) == 1
