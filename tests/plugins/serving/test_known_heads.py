"""Requests whose heads were seen before are answered as those that are parsed."""

from __future__ import annotations

import asyncio

import pytest
import uvicorn
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphmill_plugins.serving.requests.server_core import ServerCore
from graphmill_plugins.serving.rest import known_heads
from graphmill_plugins.serving.rest.application import Application
from graphmill_plugins.serving.rest.bounded_protocol import bounded_protocol
from graphmill_plugins.serving.rest.known_heads import KnownHeads
from graphmill_plugins.serving.server_options import ServerOptions

CHUNKED = b"Transfer-Encoding: chunked"


def request(body, *more, path="/v1/models/m:predict", method="POST", length=None, version="1.1"):
    size = len(body) if length is None else length
    lines = [f"{method} {path} HTTP/{version}", "Host: x"]
    lines += [] if CHUNKED in more else [f"Content-Length: {size}"]
    return b"\r\n".join([*(line.encode() for line in lines), *more, b"", b""]) + body


PIECES = (
    request(b"{"),
    request(b"["),
    request(b"{}"),
    request(b'{"instances": []}'),
    request(b"{", path="/v1/models/other:predict"),
    request(b"{", b"Content-Encoding: br"),
    request(b"{", b"Connection: close"),
    request(b"{", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"),
    request(b"{", b"Expect: 100-continue"),
    request(b"{", version="1.0"),
    request(b"{", length=9),
    request(b"1\r\n{\r\n0\r\n\r\n", CHUNKED),
    b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"HEAD /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"{",
    b"POST /v1/mod",
    b"els/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n{",
)


class Transport:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = []
        self.is_closed = False

    def write(self, data):
        assert not self.is_closed
        self.written.append(bytes(data))

    def is_closing(self):
        return self.is_closed

    def close(self):
        self.is_closed = True

    def can_write_eof(self):
        return False

    def get_extra_info(self, name, default=None):
        return {"peername": ("1.2.3.4", 5), "sockname": ("1.2.3.4", 6)}.get(name, default)

    def __getattr__(self, name):
        if name not in {"abort", "pause_reading", "resume_reading", "set_protocol"}:
            raise AttributeError(name)
        return lambda *_: None


async def answers_to(segments):
    """Return what a connection answers to each segment, and whether it is open after that."""
    application = Application(ServerCore(ServerOptions()))
    protocol_type = bounded_protocol(application, 30.0)
    config = uvicorn.Config(
        application, http=protocol_type, lifespan="off", log_config=None, limit_concurrency=5
    )
    config.load()
    state = uvicorn.Server(config).server_state
    protocol = protocol_type(config=config, server_state=state, app_state={})
    transport = Transport()
    protocol.connection_made(transport)
    found = []
    for segment in segments:
        if not transport.is_closed:
            protocol.data_received(segment)
        for _ in range(20):
            await asyncio.sleep(0)
        found.append((b"".join(transport.written), transport.is_closed))
        transport.written.clear()
    protocol.connection_lost(None)
    return found


@pytest.fixture
def count_found(monkeypatch):
    """Return the list of the heads that were found."""
    found = []
    find = KnownHeads.find

    def recorded(heads, data):
        known = find(heads, data)
        if known is not None:
            found.append(data)
        return known

    monkeypatch.setattr(KnownHeads, "find", recorded)
    return found


SEGMENT = st.lists(st.sampled_from(PIECES), min_size=1, max_size=2).map(b"".join)


@given(st.lists(SEGMENT, min_size=1, max_size=8))
@example([PIECES[0], PIECES[1], PIECES[0]])
@example([PIECES[10], b"12345678" + PIECES[0], PIECES[0]])
@settings(max_examples=150, deadline=None)
def test_all_sequences_are_answered_as_if_each_request_was_parsed(segments):
    found = asyncio.run(answers_to(segments))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KnownHeads, "find", lambda heads, data: None)
        expected = asyncio.run(answers_to(segments))
    assert found == expected


def test_a_repeated_head_is_not_parsed(count_found):
    first, second, other = request(b"{"), request(b"["), request(b"{", path="/v2")
    answers = asyncio.run(answers_to([first, second, other, first]))
    assert count_found == [second, first]
    assert answers[0] == answers[3] != answers[1]


@pytest.mark.parametrize(
    "data",
    [
        request(b"{", b"Connection: close"),
        request(b"1\r\n{\r\n0\r\n\r\n", CHUNKED),
        request(b"{", b"Expect: 100-continue"),
        request(b"{", b"A: " + b"x" * known_heads._MAX_BYTES),
        request(b"{") * 2,
        request(b"{", version="1.0"),
    ],
)
def test_other_heads_are_always_parsed(count_found, data):
    asyncio.run(answers_to([data] * 3))
    assert count_found == []


def test_a_known_head_after_part_of_a_request_is_parsed(count_found):
    known, part = request(b"{"), request(b"", length=len(request(b"{")))
    answers = asyncio.run(answers_to([known, part, known, known, known]))
    assert count_found == [known]
    assert [len(written) > 0 for written, _ in answers] == [True, False, True, True, True]


def test_the_number_of_heads_is_limited(count_found, monkeypatch):
    monkeypatch.setattr(known_heads, "_MAX_HEADS", 2)
    requests = [request(b"{", path=f"/{number}") for number in range(5)]
    asyncio.run(answers_to([*requests, *reversed(requests)]))
    assert count_found == [requests[4]]
