"""Calls over a local socket: outcomes, cancellation, ends of connections, refusals."""

from __future__ import annotations

import os
import queue
import socket
import threading
from typing import Any

import pytest

pytest.importorskip("grpc")

from graphmill import errors
from graphmill.testing.timeouts import TIMEOUT, within
from graphmill_plugins._server.call_threads import CallThreads
from graphmill_plugins.distributed.local_socket import frame_socket, local_server
from graphmill_plugins.distributed.local_socket.frames import CANCEL, frame, request
from graphmill_plugins.distributed.local_socket.local_client import (
    CANCELLED_HERE,
    LOST,
    LocalClient,
)
from graphmill_plugins.distributed.local_socket.local_server import LocalServer
from graphmill_plugins.distributed.monitoring.call_counters import CallCounters
from graphmill_plugins.distributed.transfer.host_identity import host_identity

pytestmark = pytest.mark.skipif(not host_identity(), reason="no local sockets on this system")

ECHO, FAIL, WAIT, LATER = "/test/Echo", "/test/Fail", "/test/Wait", "/test/Later"


class Served:
    """A server with four methods."""

    def __init__(self, max_calls: int = 100) -> None:
        self.waiting: queue.Queue[Any] = queue.Queue()
        self.ended: queue.Queue[bytes] = queue.Queue()
        self.lost: queue.Queue[Any] = queue.Queue()
        self.counters = CallCounters([ECHO, FAIL, WAIT, LATER])
        self.threads = CallThreads()
        self.server = LocalServer(
            {ECHO: self.echo, FAIL: self.fail, WAIT: self.wait, LATER: self.echo},
            {LATER: self.later},
            self.counters,
            self.threads,
            max_calls,
        )
        self.server.start()
        self.address = self.server.address(host_identity(), None)  # type: ignore[arg-type]
        self.clients: list[LocalClient] = []

    def echo(self, data: bytes, call: Any) -> bytes:
        return data

    def fail(self, data: bytes, call: Any) -> bytes:
        if data == b"bug":
            raise KeyError("a bug")
        error = errors.NotFoundError("no such thing", node="n")
        error.is_derived = data == b"derived"
        raise error

    def wait(self, data: bytes, call: Any) -> bytes:
        release = threading.Event()
        if not call.on_end(lambda: (self.ended.put(data), release.set())):
            self.ended.put(data)
            return b""
        self.waiting.put(release)
        release.wait(TIMEOUT)
        return b"released"

    def later(self, data: bytes, call: Any, reply: Any, submit: Any) -> bool:
        if data == b"declined":
            return False
        call.on_end(lambda: self.ended.put(data))
        self.waiting.put(reply)
        return True

    def client(self) -> LocalClient:
        client = LocalClient(self.address, self.lost.put)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            client.close()
            client.join()
        self.server.stop(None)
        self.threads.shut_down()


@pytest.fixture
def served():
    served = Served()
    yield served
    served.close()


def begin(client: LocalClient, path: str, data: bytes = b"") -> tuple[queue.Queue[Any], Any]:
    outcomes: queue.Queue[Any] = queue.Queue()
    return outcomes, client.start(path, data, lambda *outcome: outcomes.put(outcome))


def call(client: LocalClient, path: str, data: bytes = b"") -> Any:
    return begin(client, path, data)[0].get(timeout=TIMEOUT)


def test_calls_return_responses_of_any_size(served):
    client = served.client()
    for data in (b"", b"x", os.urandom(5 << 20)):
        assert call(client, ECHO, data) == (data, None)
    assert served.counters.by_path[ECHO].codes == {0: 3}


def test_failures_keep_class_text_and_derivation(served):
    client = served.client()
    _, failure = call(client, FAIL)
    assert (failure.number, failure.is_derived) == (errors.NOT_FOUND, False)
    assert "no such thing" in failure.text
    assert "{{node n}}" in failure.text
    assert call(client, FAIL, b"derived")[1].is_derived
    _, failure = call(client, FAIL, b"bug")
    assert (failure.number, "KeyError" in failure.text) == (errors.INTERNAL, True)
    _, failure = call(client, "/test/Nothing")
    assert (failure.number, "'/test/Nothing'" in failure.text) == (errors.UNIMPLEMENTED, True)
    assert call(client, ECHO, b"still there") == (b"still there", None)


def test_many_threads_share_a_connection(served):
    client = served.client()
    failures: list[Any] = []

    def ask(number: int) -> None:
        for step in range(50):
            data = b"%d %d" % (number, step)
            if call(client, ECHO, data) != (data, None):
                failures.append(data)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert served.counters.num_in_flight(ECHO) == 0


def test_a_waiting_call_delays_no_other(served):
    client = served.client()
    outcomes, _ = begin(client, WAIT)
    release = served.waiting.get(timeout=TIMEOUT)
    assert call(client, ECHO, b"x") == (b"x", None)
    release.set()
    assert outcomes.get(timeout=TIMEOUT) == (b"released", None)


def test_a_started_call_is_answered_from_another_thread(served):
    client = served.client()
    outcomes, _ = begin(client, LATER, b"1")
    reply = served.waiting.get(timeout=TIMEOUT)
    reply(b"there", None)
    assert outcomes.get(timeout=TIMEOUT) == (b"there", None)
    outcomes, _ = begin(client, LATER, b"2")
    served.waiting.get(timeout=TIMEOUT)(b"", errors.AbortedError("the step ended"))
    assert outcomes.get(timeout=TIMEOUT)[1].number == errors.ABORTED
    assert call(client, LATER, b"declined") == (b"declined", None)
    assert served.counters.by_path[LATER].codes == {0: 2, errors.ABORTED: 1}


@pytest.mark.parametrize("path", [WAIT, LATER])
def test_cancelled_calls_end_on_both_sides(served, path):
    client = served.client()
    outcomes, withdraw = begin(client, path, b"me")
    served.waiting.get(timeout=TIMEOUT)
    withdraw()
    withdraw()
    assert outcomes.get(timeout=TIMEOUT) == (None, CANCELLED_HERE)
    assert served.ended.get(timeout=TIMEOUT) == b"me"
    assert call(client, ECHO, b"x") == (b"x", None)
    assert outcomes.empty()


def test_calls_of_a_lost_client_are_ended(served):
    client = served.client()
    outcomes, _ = begin(client, WAIT, b"me")
    served.waiting.get(timeout=TIMEOUT)
    client.close()
    assert served.ended.get(timeout=TIMEOUT) == b"me"
    assert outcomes.get(timeout=TIMEOUT) == (None, LOST)
    assert served.lost.get(timeout=TIMEOUT) is client


def test_a_call_after_the_end_was_not_sent(served):
    client = served.client()
    client.close()
    client.join()
    outcomes, withdraw = begin(client, ECHO)
    assert withdraw is None
    assert outcomes.empty()


def test_a_stopping_server_refuses_calls_and_finishes_others(served):
    client = served.client()
    outcomes, _ = begin(client, WAIT)
    release = served.waiting.get(timeout=TIMEOUT)
    served.server.stop_accepting()
    assert call(client, ECHO)[1].number == errors.UNAVAILABLE
    stopping = threading.Thread(target=served.server.stop, args=(TIMEOUT,))
    stopping.start()
    release.set()
    assert outcomes.get(timeout=TIMEOUT) == (b"released", None)
    stopping.join()
    assert served.lost.get(timeout=TIMEOUT) is client
    with pytest.raises(OSError, match="refused"):
        LocalClient(served.address, served.lost.put)


def test_a_server_without_grace_ends_its_calls(served):
    client = served.client()
    outcomes, _ = begin(client, WAIT, b"me")
    served.waiting.get(timeout=TIMEOUT)
    served.server.stop(None)
    assert served.ended.get(timeout=TIMEOUT) == b"me"
    assert outcomes.get(timeout=TIMEOUT) == (None, LOST)


def test_calls_above_the_limit_are_refused():
    served = Served(max_calls=1)
    try:
        client = served.client()
        outcomes, _ = begin(client, WAIT)
        release = served.waiting.get(timeout=TIMEOUT)
        _, failure = call(client, ECHO)
        assert (failure.number, "limit" in failure.text) == (errors.RESOURCE_EXHAUSTED, True)
        release.set()
        assert outcomes.get(timeout=TIMEOUT) == (b"released", None)
    finally:
        served.close()


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 13, frame(2, 1, b"a response"), frame(3, 1), b"\0" * 100],
    ids=["header", "response", "failure", "zeros"],
)
def test_malformed_frames_end_their_connection_only(served, data):
    client = served.client()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.settimeout(TIMEOUT)
        other.connect(served.address)
        other.sendall(data)
        assert other.recv(1) == b""
    assert call(client, ECHO, b"x") == (b"x", None)


def test_cancelling_an_unknown_call_does_nothing(served):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.settimeout(TIMEOUT)
        other.connect(served.address)
        other.sendall(frame(CANCEL, 99) + request(1, ECHO.encode(), b"x"))
        assert other.recv(100).endswith(b"x")


def test_a_client_that_does_not_read_blocks_no_other_client(served):
    large = os.urandom(8 << 20)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.connect(served.address)
        for number in range(4):  # more than the system takes at once
            other.sendall(request(number, ECHO.encode(), large))
        assert call(served.client(), ECHO, b"x") == (b"x", None)


def test_other_users_are_refused(served, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(local_server, "is_own_process", lambda sock: False)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
            other.settimeout(TIMEOUT)
            other.connect(served.address)
            assert other.recv(1) == b""
    monkeypatch.setattr(frame_socket.os, "geteuid", lambda: 1 << 30)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert not frame_socket.is_own_process(ours)


def test_the_address_is_for_tasks_of_this_host(served):
    assert served.server.address(b"another host", None) == b""
    assert served.address.startswith(b"\0graphmill-")


def test_no_thread_is_leaked(served):
    client = served.client()
    assert call(client, ECHO) == (b"", None)
    served.close()
    within(client.join, "the client's thread")
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("graphmill-local")]
