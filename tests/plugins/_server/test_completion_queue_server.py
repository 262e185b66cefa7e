"""The server over gRPC's completion queue: calls, streams, refusals, cancellation, stopping."""

from __future__ import annotations

import itertools
import logging
import random
import sys
import threading
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from graphmill import proto
from graphmill_plugins._server.call_threads import CallThreads
from graphmill_plugins._server.completion_queue_server import CompletionQueueServer
from graphmill_plugins._server.deferred_handler import DeferredHandler
from graphmill_plugins._server.new_server import new_server

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 60
OPTIONS = (("grpc.so_reuseport", 0),)


class Methods(grpc.GenericRpcHandler):
    """Handlers by the last part of a path; `release` ends the calls of `wait`."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)

    def service(self, details: Any) -> Any:
        name = details.method.rpartition("/")[2]
        if name in {"defer", "raise_early"}:
            return DeferredHandler(getattr(self, name), bytes)
        if name == "defer_message":
            return DeferredHandler(self.defer, proto.NodeDef.FromString)
        if name == "message":
            return grpc.unary_unary_rpc_method_handler(self.echo, proto.NodeDef.FromString)
        function = getattr(self, name, None)
        return function and grpc.unary_unary_rpc_method_handler(function)

    def echo(self, request: bytes, _: Any) -> bytes:
        return request

    def fail(self, request: bytes, _: Any) -> bytes:
        raise KeyError(request)

    def status(self, _request: bytes, context: Any) -> bytes:
        context.set_code(grpc.StatusCode.NOT_FOUND)
        context.set_details("nothing here")
        context.set_trailing_metadata([("key", "value")])
        return b"not sent"

    def defer(self, request: bytes, call: Any) -> None:
        threading.Thread(target=self._answer, args=(request, call)).start()

    def _answer(self, request: bytes, call: Any) -> None:
        self.begun.release()
        assert self.release.wait(TIMEOUT)
        assert 0 < call.time_remaining() < 2 * TIMEOUT  # gRPC rounds it
        assert call.peer().startswith("ipv4:127.0.0.1:")
        if request == b"fail":
            call.fail(grpc.StatusCode.ABORTED, "given up")
        else:
            call.answer(request)

    def raise_early(self, request: bytes, call: Any) -> None:
        raise KeyError(request, call)

    def wait(self, request: bytes, context: Any) -> bytes:
        assert context.add_callback(self.ended.release)
        self.begun.release()
        assert self.release.wait(TIMEOUT)
        return request


class Served:
    """A server, and a channel to it."""

    def __init__(self, max_calls: int = 100) -> None:
        self.methods = Methods()
        self.threads = CallThreads()
        self.server = CompletionQueueServer(self.threads, [self.methods], OPTIONS, max_calls)
        self.health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")

    def start(self, method: str, request: bytes = b"") -> Any:
        return self.channel.unary_unary(f"/test/{method}").future(request, timeout=TIMEOUT)

    def close(self) -> None:
        self.methods.release.set()
        self.channel.close()
        assert self.server.stop(None).wait(TIMEOUT)
        self.threads.shut_down()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.close()


def error_of(call: Any) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call.result()
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_a_response_is_returned(served, size):
    assert served.start("echo", b"x" * size).result() == b"x" * size


def test_a_status_has_code_message_and_metadata(served):
    error = error_of(served.start("status"))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert error.details() == "nothing here"
    assert [tuple(pair) for pair in error.trailing_metadata()] == [("key", "value")]


def test_a_failed_handler_ends_its_call_only(served, caplog):
    with caplog.at_level(logging.ERROR, "graphmill.server"):
        error = error_of(served.start("fail"))
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert error.details() == "the handler failed: KeyError"
    assert "a handler failed" in caplog.text
    assert served.start("echo", b"next").result() == b"next"


@pytest.mark.parametrize("method", ["message", "defer_message"])
def test_a_request_that_is_no_message_is_refused(served, method, caplog):
    error = error_of(served.start(method, b"\x0a\xff"))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert error.details() == "the request is not a message of the method's type"
    assert caplog.text == ""
    assert served.start("echo", b"next").result() == b"next"


def test_an_unknown_method_is_unimplemented(served):
    assert error_of(served.start("unknown")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_call_without_request_is_refused(served):
    call = served.channel.stream_unary("/test/echo")
    with pytest.raises(grpc.RpcError, match="requires one request message"):
        call(iter(()), timeout=TIMEOUT)


def test_calls_that_wait_delay_no_other(served):
    waiting = [served.start("wait", b"%d" % i) for i in range(20)]
    for _ in waiting:
        assert served.methods.begun.acquire(timeout=TIMEOUT)
    assert served.start("echo", b"now").result() == b"now"
    assert not any(call.done() for call in waiting)
    served.methods.release.set()
    assert [call.result() for call in waiting] == [b"%d" % i for i in range(20)]


def test_calls_above_the_limit_are_refused():
    served = Served(max_calls=2)
    waiting = [served.start("wait") for _ in range(2)]
    for _ in waiting:
        assert served.methods.begun.acquire(timeout=TIMEOUT)
    error = error_of(served.start("echo"))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert error.details() == "2 calls run or wait on this server, which is its limit"
    served.methods.release.set()
    assert [call.result() for call in waiting] == [b"", b""]
    assert served.start("echo", b"again").result() == b"again"
    served.close()


def test_a_cancelled_call_notifies_its_handler(served):
    call = served.start("wait")
    assert served.methods.begun.acquire(timeout=TIMEOUT)
    call.cancel()
    assert served.methods.ended.acquire(timeout=TIMEOUT)
    assert served.start("echo", b"next").result() == b"next"


def test_a_stream_sends_its_responses_in_order(served):
    watch = served.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
    responses = watch(health_pb2.HealthCheckRequest(service="x"), timeout=TIMEOUT)
    unknown, serving, not_serving = (
        health_pb2.HealthCheckResponse.ServingStatus.Value(name)
        for name in ("SERVICE_UNKNOWN", "SERVING", "NOT_SERVING")
    )
    assert next(responses).status == unknown
    changes = [serving, not_serving] * 50
    for status in changes:
        served.health.set("x", status)
    received = [response.status for response in itertools.islice(responses, len(changes))]
    assert received == changes
    responses.cancel()
    assert served.start("echo", b"next").result() == b"next"


def test_stopping_waits_for_calls_within_the_grace(served):
    call = served.start("wait", b"done")
    assert served.methods.begun.acquire(timeout=TIMEOUT)
    stopped = served.server.stop(TIMEOUT)
    error = error_of(served.start("echo"))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    assert error.details() == "the server is stopping"
    assert not stopped.is_set()
    served.methods.release.set()
    assert call.result() == b"done"
    assert stopped.wait(TIMEOUT)


def test_stopping_cancels_calls_after_the_grace(served):
    call = served.start("wait")
    assert served.methods.begun.acquire(timeout=TIMEOUT)
    assert served.server.stop(0.01).wait(TIMEOUT)
    assert error_of(call).code() in {grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAVAILABLE}


def test_deferred_handlers_hold_no_thread(served):
    calls = [served.start("defer", b"%d" % i) for i in range(20)]
    for _ in calls:
        assert served.methods.begun.acquire(timeout=TIMEOUT)
    assert served.start("echo", b"now").result() == b"now"
    assert len(served.threads) == 0  # two poll, and no other was needed
    served.methods.release.set()
    assert [call.result() for call in calls] == [b"%d" % i for i in range(20)]


def test_a_deferred_handler_fails(served):
    served.methods.release.set()
    error = error_of(served.start("defer", b"fail"))
    assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, "given up")


def test_a_deferred_handler_that_raises_ends_its_call_only(served):
    error = error_of(served.start("raise_early"))
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert served.start("echo", b"next").result() == b"next"


def test_deferred_calls_above_the_limit_are_refused():
    served = Served(max_calls=1)
    waiting = served.start("defer", b"first")
    assert served.methods.begun.acquire(timeout=TIMEOUT)
    assert error_of(served.start("defer")).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    served.methods.release.set()
    assert waiting.result() == b"first"
    assert served.start("defer", b"second").result() == b"second"
    served.close()


@pytest.mark.parametrize("seed", range(5))
def test_servers_stop_while_clients_call(seed):
    draw = random.Random(seed)
    served = Served(max_calls=4)
    served.methods.release.set()
    calls = []
    for _ in range(draw.randrange(1, 60)):
        calls.append(
            served.start(draw.choice(["echo", "status", "wait", "defer", "unknown"]), b"x")
        )
        if draw.random() < 0.3:
            calls[-1].cancel()
    stopped = served.server.stop(draw.choice([None, 0.01, TIMEOUT]))
    assert stopped.wait(TIMEOUT)
    codes = {call.code() for call in calls}  # each has ended
    assert grpc.StatusCode.INTERNAL not in codes
    served.close()


def test_a_port_in_use_is_refused(served):
    other = CompletionQueueServer(served.threads, [], OPTIONS, 1)
    with pytest.raises(RuntimeError):
        other.add_insecure_port(f"127.0.0.1:{served.port}")


def test_without_a_completion_queue_grpcio_serves(monkeypatch, caplog):
    name = "graphmill_plugins._server.completion_queue_server"
    monkeypatch.setitem(sys.modules, name, None)
    threads, methods = CallThreads(), Methods()
    with caplog.at_level(logging.WARNING, "graphmill.server"):
        server = new_server(threads, (methods,), OPTIONS, 100)
    assert "calls take longer" in caplog.text
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        assert channel.unary_unary("/test/echo")(b"here", timeout=TIMEOUT) == b"here"
        methods.release.set()
        defer = channel.unary_unary("/test/defer")
        assert defer(b"later", timeout=TIMEOUT) == b"later"
        with pytest.raises(grpc.RpcError, match="given up"):
            defer(b"fail", timeout=TIMEOUT)
    server.stop(None)
    threads.shut_down()
