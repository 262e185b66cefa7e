"""`OpError.op` is the operation of the session's graph."""

from __future__ import annotations

import gc
import math
import pickle
import weakref
from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.testing.proto_builders import function_def, graph_def, node_def

FLOAT = ["float32"]
X = node_def("x", "Placeholder", dtype="float32", shape=None)
CHECK = node_def("check", "CheckNumerics", "x", T="float32", message=b"bad")
OUT = node_def("out", "Neg", "check", T="float32")
INNER = node_def("check", "CheckNumerics", "a", T="float32", message=b"bad")
FUNCTION = function_def("f", {"a": "float32"}, {"r": ("float32", "check:output:0")}, INNER)
CALL = node_def("call", "PartitionedCall", "x", Tin=FLOAT, Tout=FLOAT, f=FuncAttr("f", {}))
BAD = {"x:0": math.inf}
FLAT = graph_def(X, CHECK, OUT)
CALLS = graph_def(X, node_def("check", "NoOp"), CALL, functions=[FUNCTION])
JITS = ["off", "eager"]


def failure(session: Any, fetch: str, feeds: Any = None) -> errors.OpError:
    with pytest.raises(errors.OpError) as caught:
        session.run(fetch, BAD if feeds is None else feeds)
    return caught.value


def config(jit: str) -> dict[str, Any]:
    return {"graphmill": {"jit": jit}}


@pytest.mark.parametrize("jit", JITS)
def test_op_is_the_operation_of_the_program(jit: str) -> None:
    graph = graphmill.Graph.from_graph_def(FLAT)
    with graphmill.Session(graph=graph, config=config(jit)) as session:
        for _ in range(3):
            error = failure(session, "out:0")
            assert error.op is graph.node("check")
            assert error.op_type == "CheckNumerics"
            assert error.node_def == CHECK


def test_op_is_an_operation_of_the_session_graph_of_a_message() -> None:
    with graphmill.Session(graph=FLAT) as session:
        error = failure(session, "out:0")
        assert error.op is session.graph.get_operation_by_name("check")
        assert failure(session, "out:0").op is error.op


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("executor", ["", "SINGLE_THREADED_EXECUTOR"])
def test_op_of_a_node_in_a_function_is_the_call(jit: str, executor: str) -> None:
    message: Any = type(CALLS)()
    message.CopyFrom(CALLS)
    message.node[2].attr["executor_type"].s = executor.encode()
    graph = graphmill.Graph.from_graph_def(message)
    with graphmill.Session(graph=graph, config=config(jit)) as session:
        error = failure(session, "call:0")
        assert (error.op, error.op_type) == (graph.node("call"), "CheckNumerics")
        assert error.node is not None
        assert error.node.rpartition("/")[2] == "check"


def test_op_of_a_missing_feed_is_the_placeholder() -> None:
    graph = graphmill.Graph.from_graph_def(FLAT)
    with graphmill.Session(graph=graph) as session:
        assert failure(session, "out:0", {}).op is graph.node("x")


def test_op_in_callables_and_partial_runs_is_the_operation() -> None:
    graph = graphmill.Graph.from_graph_def(FLAT)
    with graphmill.Session(graph=graph) as session:
        call = session.make_callable("out:0", ["x:0"])
        with pytest.raises(errors.InvalidArgumentError) as caught:
            call(math.inf)
        assert caught.value.op is graph.node("check")
        handle = session.partial_run_setup(["out:0"], ["x:0"])
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.partial_run(handle, "out:0", BAD)
        assert caught.value.op is graph.node("check")


def test_op_of_a_timeout_is_the_node_that_waited() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = graphmill.ops.data_flow.fifo_queue_v2(component_types=["float32"], name="q")
        graphmill.ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="got")
    with graphmill.Session(graph=graph) as session:
        options = graphmill.proto.RunOptions(timeout_in_ms=20)
        with pytest.raises(errors.DeadlineExceededError) as caught:
            session.run("got:0", options=options)
    assert caught.value.op is graph.node("got")


def test_error_can_be_pickled_and_then_has_no_operation() -> None:
    with graphmill.Session(graph=FLAT) as session:
        sent = pickle.loads(pickle.dumps(failure(session, "out:0")))
    assert (sent.op, sent.op_type, sent.node) == (None, "CheckNumerics", "check")
    assert sent.node_def == CHECK


def test_error_keeps_no_session_alive() -> None:
    session = graphmill.Session(graph=FLAT)
    error = failure(session, "out:0").with_traceback(None)
    error.__context__ = error.__cause__ = None  # whose tracebacks have the frames of the step
    inner, outer = weakref.ref(session._impl), weakref.ref(session)
    session.close()
    del session
    gc.collect()
    assert (inner(), outer()) == (None, None)
    assert error.op is not None
    assert error.op.name == "check"
