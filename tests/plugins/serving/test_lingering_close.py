"""Connections whose client is still sending are not reset."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace

import pytest
from tests.plugins.serving.served_models import TIMEOUT, options_for, write_line
from tests.plugins.serving.test_limits import connect, head, received, wait_for_metric

from graphmill_plugins.serving.rest.lingering_close import LingeringClose


class Transport:
    """Records what is done with it."""

    name = "its own"

    def __init__(self, has_halves):
        self.calls = []
        self.has_halves = has_halves

    def can_write_eof(self):
        return self.has_halves

    def is_closing(self):
        return "close" in self.calls or "abort" in self.calls

    def __getattr__(self, name):
        return lambda: self.calls.append(name)


class Loop:
    """Runs its one timer when told."""

    def __init__(self):
        self.timer = None

    def call_later(self, seconds, function):
        assert (seconds, self.timer) == (3.0, None)
        self.timer = function
        return SimpleNamespace(cancel=self.cancel)

    def cancel(self):
        self.timer = None


@pytest.fixture
def make():
    def made(*, should_linger=True, has_halves=True):
        transport, loop = Transport(has_halves), Loop()
        return transport, loop, LingeringClose(transport, loop, lambda: should_linger, 3.0)

    return made


@pytest.mark.parametrize("state", [{"should_linger": False}, {"has_halves": False}])
def test_other_connections_are_closed_at_once(make, state):
    transport, loop, lingering = make(**state)
    lingering.close()
    assert (transport.calls, loop.timer) == (["close"], None)
    assert lingering.is_closing()
    assert not lingering.is_lingering
    assert lingering.name == "its own"


def test_the_own_half_is_closed_first(make):
    transport, loop, lingering = make()
    assert not lingering.is_closing()
    lingering.close()
    assert transport.calls == ["resume_reading", "write_eof"]
    assert lingering.is_closing()
    assert lingering.is_lingering
    loop.timer()
    assert transport.calls[2:] == ["abort"]


def test_a_second_call_closes_the_connection(make):
    transport, loop, lingering = make()
    lingering.close()
    lingering.close()
    assert (transport.calls[2:], loop.timer) == (["close"], None)


def test_a_lost_connection_has_no_timer(make):
    _, loop, lingering = make()
    lingering.close()
    lingering.stop()
    lingering.stop()
    assert loop.timer is None


def chunked():
    return head(0, "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")


@pytest.mark.parametrize(
    ("sent", "status"),
    [(chunked() + b"3e9\r\n" + b" " * 1001, 413), (head(1001), 413), (b"\x16\x03\r\n", 400)],
)
def test_a_client_may_go_on_after_a_refusal(serve, tmp_path, sent, status):
    server, _ = serve(options_for(write_line(tmp_path / "m"), max_request_bytes=1000))
    with connect(server) as connection:
        connection.sendall(sent)
        assert received(connection).startswith(b"HTTP/1.1 %d " % status)
        for _ in range(50):
            connection.sendall(b"5\r\nabcde\r\n" * 1000)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def send_forever(connection):
    while True:
        connection.sendall(b" " * 1000)


def test_a_client_that_goes_on_for_too_long_is_disconnected(serve, tmp_path):
    options = options_for(write_line(tmp_path / "m"), max_request_bytes=1000, receive_seconds=0.2)
    server, client = serve(options)
    with connect(server) as connection:
        connection.sendall(head(1001))
        assert received(connection).startswith(b"HTTP/1.1 413 ")
        with pytest.raises(ConnectionError):
            send_forever(connection)
    assert client.get("/v2")[0] == 200


def test_the_server_ends_while_a_head_is_arriving(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m"), receive_seconds=10 * TIMEOUT))
    with connect(server) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\nGET /v2")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        started = time.monotonic()
        server.stop(TIMEOUT)
        assert time.monotonic() - started < TIMEOUT / 2
        assert connection.recv(1) == b""


def test_a_refused_request_is_no_longer_pending(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m")))
    with connect(server) as connection:
        connection.sendall(chunked() + b"190\r\n" + b" " * 400)
        wait_for_metric(client, "graphmill_serving_pending_bytes 400")
        connection.sendall(b"x")  # no end of a chunk
        assert received(connection).startswith(b"HTTP/1.1 400 ")
        wait_for_metric(client, "graphmill_serving_pending_bytes 0")


def test_the_server_ends_while_a_client_goes_on(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m"), max_request_bytes=1000))
    with connect(server) as connection:
        connection.settimeout(TIMEOUT)
        connection.sendall(head(1001))
        assert received(connection).startswith(b"HTTP/1.1 413 ")
        server.stop(0)
