"""Calls that fail, are retried, time out or are cancelled."""

from __future__ import annotations

import logging
import os
import signal
import threading
from concurrent import futures
from typing import Any

import grpc
import pytest

import graphmill
from graphmill import errors, proto
from graphmill_plugins.distributed.client.channel import MasterChannel

WAITING = 30


def unavailable() -> errors.OpError:
    return errors.UnavailableError("not now")


def test_unavailable_call_is_retried_with_its_id(master, session) -> None:
    session.run("y:0", {"x:0": [1]})
    master.failures["RunStep"] = [unavailable(), unavailable()]
    assert session.run("y:0", {"x:0": [2]}).tolist() == [2]
    ids = [request.request_id for request in master.requests("RunStep")]
    assert len(ids) == 4
    assert ids[0] != ids[1] == ids[2] == ids[3]


def test_a_call_is_sent_eleven_times(master, session) -> None:
    master.failures["CreateSession"] = [unavailable() for _ in range(20)]
    with pytest.raises(errors.UnavailableError, match=r"not now \(CreateSession at grpc://"):
        session.run("y:0", {"x:0": [1]})
    assert len(master.requests("CreateSession")) == 11


def test_unavailable_step_is_not_retried(master, session) -> None:
    master.RunStep = lambda request, data: proto.RunStepResponse(
        status_code=errors.UNAVAILABLE, status_error_message="a worker is gone"
    )
    with pytest.raises(errors.UnavailableError, match="a worker is gone"):
        session.run("y:0", {"x:0": [1]})
    assert len(master.requests("RunStep")) == 1


@pytest.mark.parametrize("kind", [errors.AbortedError, errors.InternalError])
def test_other_errors_are_not_sent_again(master, session, kind) -> None:
    master.failures["RunStep"] = [kind("no")]
    with pytest.raises(kind):
        session.run("y:0", {"x:0": [1]})
    assert len(master.requests("RunStep")) == 1


def test_missing_master_is_unavailable(master, graph) -> None:
    master.stop()
    session = graphmill.Session(master.target, graph=graph)
    with pytest.raises(errors.UnavailableError, match=f"CreateSession at {master.target}"):
        session.run("y:0", {"x:0": [1]})
    session.close()


def test_a_session_is_created_after_a_failure(master, session) -> None:
    master.failures["CreateSession"] = [errors.ResourceExhaustedError("too many sessions")]
    with pytest.raises(errors.ResourceExhaustedError):
        session.run("y:0", {"x:0": [1]})
    assert session.run("y:0", {"x:0": [1]}).tolist() == [1]


@pytest.mark.parametrize("place", ["options", "config"])
def test_a_step_has_a_deadline(master, session, place) -> None:
    session.list_devices()
    options = {"timeout_in_ms": 100} if place == "options" else None
    session._impl.config.operation_timeout_in_ms = 100 if place == "config" else 0
    master.blocked.add("RunStep")
    with pytest.raises(errors.DeadlineExceededError, match="RunStep at"):
        session.run("y:0", {"x:0": [1]}, options=options)
    assert master.cancelled.wait(WAITING)
    session._impl.config.operation_timeout_in_ms = 0


def test_close_cancels_calls_of_this_session_only(master, graph) -> None:
    master.blocked.add("RunStep")
    one, other = (graphmill.Session(master.target, graph=graph) for _ in range(2))
    found: list[BaseException] = []
    thread = threading.Thread(target=lambda: found.append(failure_of(one)))
    thread.start()
    assert master.arrived.wait(WAITING)
    one.close()
    thread.join(WAITING)
    assert [type(error) for error in found] == [errors.CancelledError]
    assert "closed" in str(found[0])
    assert master.cancelled.wait(WAITING)
    master.blocked.clear()
    assert other.run("y:0", {"x:0": [1]}).tolist() == [1]
    other.close()


def failure_of(session: graphmill.Session) -> BaseException:
    with pytest.raises(errors.OpError) as caught:
        session.run("y:0", {"x:0": [1]})
    return caught.value


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_cancels_the_step(master, session) -> None:
    session.run("y:0", {"x:0": [1]})
    master.blocked.add("RunStep")

    def interrupt() -> None:
        master.arrived.wait(WAITING)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        session.run("y:0", {"x:0": [1]})
    thread.join(WAITING)
    assert master.cancelled.wait(WAITING)
    master.blocked.clear()
    assert session.run("y:0", {"x:0": [1]}).tolist() == [1]


def test_closed_session_error_says_closed(master, session) -> None:
    call = session.make_callable("y:0", ["x:0"])
    session.close()
    session.close()
    assert master.names().count("CloseSession") == 1
    for use in (
        lambda: session.run("y:0", {"x:0": [1]}),
        lambda: call([1]),
        session.list_devices,
    ):
        with pytest.raises(errors.CancelledError, match=r"Session has been closed\."):
            use()


def test_a_session_that_never_ran_is_closed_without_a_call(master, session) -> None:
    session.close()
    assert master.calls == []


def test_close_does_not_wait_for_a_master_that_is_silent(master, graph, caplog) -> None:
    session = graphmill.Session(master.target, graph)
    session.run("y:0", {"x:0": [1]})
    session._impl.config.operation_timeout_in_ms = 200
    master.blocked.add("CloseSession")
    with caplog.at_level(logging.WARNING, "graphmill.distributed"):
        session.close()
    assert "was not closed on its master" in caplog.text


@pytest.mark.parametrize("kind", [errors.AbortedError, errors.UnavailableError])
def test_close_of_a_session_that_is_gone_is_logged(master, session, caplog, kind) -> None:
    session.run("y:0", {"x:0": [1]})
    master.failures["CloseSession"] = [kind("gone") for _ in range(11)]
    session.close()
    assert "gone" in caplog.text


def test_a_new_session_finds_a_master_that_was_restarted(master, graph) -> None:
    """It shares the connection, and its pause after failed attempts, with an older session."""
    with graphmill.Session(master.target, graph=graph) as old:
        old.run("y:0", {"x:0": [1]})
        for _ in range(5):
            master.stop()
            with pytest.raises(errors.UnavailableError):
                old.run("y:0", {"x:0": [1]})
            master = type(master)(master.port)
            with graphmill.Session(master.target, graph=graph) as session:
                assert session.run("y:0", {"x:0": [1]}).tolist() == [1]
    master.stop()


def test_sessions_share_one_connection(master, graph) -> None:
    for _ in range(3):
        with graphmill.Session(master.target, graph=graph) as session:
            session.run("y:0", {"x:0": [1]})
    sessions = [graphmill.Session(master.target, graph=graph) for _ in range(3)]
    master.peers.clear()
    for session in sessions:
        session.run("y:0", {"x:0": [1]})
    assert len(master.peers) == 1
    for session in sessions:
        session.close()


def test_sixteen_threads_share_a_session(session) -> None:
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        for _ in range(5):
            found[number] = session.run("y:0", {"x:0": [number]}).tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAITING)
    assert found == {number: [number] for number in range(16)}


def test_missing_grpcio_error_names_the_package(monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "grpc", None)
    with pytest.raises(errors.FailedPreconditionError, match=r"pip install 'graphmill\[grpc\]'"):
        graphmill.Session("grpc://127.0.0.1:1")


def test_the_calling_thread_takes_the_response_itself(session) -> None:
    session.run("y:0", {"x:0": [1]})
    before = set(threading.enumerate())
    session.run("y:0", {"x:0": [2]})
    new = [thread.name for thread in set(threading.enumerate()) - before]
    assert not [name for name in new if "channel_spin" in name]


@pytest.mark.parametrize("count", [0, 2])
def test_a_call_has_one_response(count: int) -> None:
    class Streams(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: iter([b""] * count)
            )

    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=(Streams(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = MasterChannel(f"grpc://127.0.0.1:{port}", proto.ConfigProto())
    with pytest.raises(errors.InternalError, match=f"has sent {count} responses"):
        channel.call("CloseSession", b"", WAITING)
    channel.close()
    server.stop(None).wait(WAITING)
