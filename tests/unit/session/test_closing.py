"""Resources live as long as sessions; closing and reset free them (clauses S10, S11)."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.graph.builder import Graph
from graphmill.testing.proto_builders import graph_def, node_def
from graphmill.testing.timeouts import no_leaked_threads

X = node_def("x", "Placeholder", dtype="float32", shape=None)
Y = node_def("y", "Neg", "x", T="float32")


def identity(name: str, src: str) -> Any:
    return node_def(name, "Identity", src, T="float32")


def variable_graph() -> Any:
    graph = Graph()
    with graph.as_default():
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        ops.state.assign(v, graph.placeholder("float32", [], name="x"), name="assign")
        ops.array.identity(v, name="read")
    return graph.as_graph_def()


def test_s10_resources_persist_across_steps_of_a_session() -> None:
    with (
        graphmill.Session(graph=variable_graph()) as one,
        graphmill.Session(graph=variable_graph()) as other,
    ):
        one.run("assign:0", {"x:0": 5.0})
        assert one.run("read:0") == 5
        with pytest.raises(errors.FailedPreconditionError, match="uninitialized value v"):
            other.run("read:0")


def test_s10_reset_clears_containers_and_closes_all_sessions(make_host: Any) -> None:
    host = make_host()
    sessions = [graphmill.Session(graph=variable_graph(), host=host) for _ in range(2)]
    sessions[0].run("assign:0", {"x:0": 5.0})
    graphmill.reset(host=host)
    for session in sessions:
        with pytest.raises(errors.CancelledError, match="Session has been closed"):
            session.run("read:0")
    graphmill.reset(host=host)  # nothing is open any more


def test_s10_reset_of_another_target_is_not_found() -> None:
    with pytest.raises(errors.NotFoundError, match="grpc"):
        graphmill.reset("smoke://x")
    with pytest.raises(errors.InvalidArgumentError, match="config"):
        graphmill.reset(config=5)
    with pytest.raises(errors.NotFoundError, match="smoke"):
        graphmill.Session.reset("smoke://x", ["c"])


def test_s10_containers_are_cleared_by_name() -> None:
    with graphmill.Session(graph=variable_graph()) as session:
        session.run("assign:0", {"x:0": 5.0})
        session._impl.reset(["other"])
        assert session.run("read:0") == 5
        session._impl.reset([])
        (host, *_) = session._impl.devices
        assert host.resource_mgr.containers() == []


def test_s11_a_closed_session_refuses_everything() -> None:
    session = graphmill.Session(graph=graph_def(X, Y))
    call = session.make_callable("y:0", ["x:0"])
    session.close()
    session.close()
    for refused in (
        lambda: session.run("y:0", {"x:0": 1.0}),
        lambda: session.run([]),
        lambda: call(1.0),
        lambda: session.make_callable("y:0", ["x:0"]),
        lambda: session.extend(graph_def(identity("z", "x"))),
        session.list_devices,
        lambda: session.partial_run_setup("y:0", ["x:0"]),
    ):
        with pytest.raises(errors.CancelledError, match="Session has been closed"):
            refused()


def test_s11_a_with_block_closes_also_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), graphmill.Session(graph=graph_def(X, Y)) as session:
        raise ZeroDivisionError
    with pytest.raises(errors.CancelledError):
        session.run("y:0", {"x:0": 1.0})


def test_s11_closing_cancels_a_step_between_two_nodes(
    probe: Any, probe_host: Any, in_thread: Any
) -> None:
    nodes = (X, node_def("held", "Probe>Hold", "x"), node_def("after", "Probe>Count", "held"))
    session = graphmill.Session(graph=graph_def(*nodes), host=probe_host)
    result = in_thread(session.run, "after:0", {"x:0": 1.0})
    assert probe.is_held.wait(60)
    session.close()
    probe.release.set()
    with pytest.raises(errors.CancelledError, match="Session has been closed"):
        result()
    assert probe.count == 0


def test_s11_closing_wakes_a_step_that_waits(probe: Any, probe_host: Any, in_thread: Any) -> None:
    session = graphmill.Session(
        graph=graph_def(X, node_def("w", "Probe>Wait", "x")), host=probe_host
    )
    result = in_thread(session.run, "w:0", {"x:0": 1.0})
    assert probe.is_waiting.wait(60)
    session.close()
    with pytest.raises(errors.CancelledError):
        result()


def test_s11_functions_added_during_close_are_closed() -> None:
    """Functions that another thread adds during the close are closed, too."""
    config = graphmill.ConfigProto(device_count={"CPU": 2})
    session = graphmill.Session(graph=graphmill.Graph(), config=config)
    impl = session._impl
    first, second = impl.devices
    early = impl._function_runtime(first)
    early.closing.register(lambda: impl._function_runtime(second))
    session.close()
    assert early.closing.is_cancelled
    assert impl._functions[second.name].closing.is_cancelled


def test_s11_closed_session_frees_everything(make_host: Any) -> None:
    host = make_host()
    with no_leaked_threads():
        session = graphmill.Session(graph=variable_graph(), host=host)
        session.run("assign:0", {"x:0": 5.0})
        options = {"timeout_in_ms": 60_000, "trace_level": "FULL_TRACE"}
        session.run("read:0", options=options)
        impl = weakref.ref(session._impl)
        session.close()
        del session
    gc.collect()
    assert impl() is None
    assert host.sessions.snapshot() == []


def test_s11_a_session_that_was_only_dropped_is_collected_too(make_host: Any) -> None:
    host = make_host()
    session = graphmill.Session(graph=variable_graph(), host=host)
    session.run("assign:0", {"x:0": 5.0})
    impl = weakref.ref(session._impl)
    del session
    gc.collect()
    assert impl() is None


def test_s6_steps_with_options_leave_no_state_in_the_session(probe_host: Any) -> None:
    nodes = (X, Y, node_def("bad", "Probe>Raise", "x"))
    with graphmill.Session(graph=graph_def(*nodes), host=probe_host) as session:
        for options in ({}, {"timeout_in_ms": 10_000}, {"inter_op_thread_pool": 99}):
            for fetch in ("y:0", "bad:0"):
                try:
                    session.run(fetch, {"x:0": 1.0}, options=options)
                except errors.InvalidArgumentError:
                    continue
        assert session._impl.cancellation._callbacks == {}


def test_graphs_of_traced_steps_are_released() -> None:
    released: list[None] = []
    with graphmill.Session(graph=graph_def(X, Y)) as session:
        metadata, options = graphmill.RunMetadata(), {"trace_level": "FULL_TRACE"}
        session.run("y:0", {"x:0": 1.0}, options=options, run_metadata=metadata)
        assert metadata.step_stats.dev_stats
        for entry in session._impl.cached_executors():
            for item in entry.items:
                weakref.finalize(item.graph, released.append, None)
        del entry, item
    del session
    gc.collect()
    assert released
