"""Heads of responses are sent with their bodies."""

from __future__ import annotations

import http.client

import pytest
from tests.plugins.serving.served_models import TIMEOUT, options_for, write_line

from graphmill_plugins.serving.rest.joined_writes import JoinedWrites

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"


class Transport:
    """Records the data that is sent."""

    def __init__(self):
        self.sent = []
        self.name = "its own"

    def write(self, data):
        self.sent.append(data)

    def close(self):
        self.sent.append("closed")

    def is_closing(self):
        return "closed" in self.sent


@pytest.mark.parametrize(
    ("writes", "sent"),
    [
        ([HEAD, b"ok"], [HEAD + b"ok"]),
        ([HEAD, b"ok", HEAD, b"no"], [HEAD + b"ok", HEAD + b"no"]),
        ([HEAD, HEAD], [HEAD + HEAD]),  # a body that looks like a head
        ([b"HTTP/1.1 100 Continue\r\n\r\n"], [b"HTTP/1.1 100 Continue\r\n\r\n"]),
        ([HEAD + b"ok"], [HEAD + b"ok"]),
        ([HEAD], []),
    ],
)
def test_a_head_waits_for_its_body_only(writes, sent):
    transport = Transport()
    joined = JoinedWrites(transport)
    for data in writes:
        joined.write(data)
    assert transport.sent == sent
    assert joined.name == "its own"


def test_a_head_is_sent_before_the_end():
    transport = Transport()
    joined = JoinedWrites(transport)
    joined.write(HEAD)
    joined.flush()
    joined.flush()
    joined.write(HEAD)
    joined.close()
    assert transport.sent == [HEAD, HEAD, "closed"]


def test_what_follows_the_end_is_dropped():
    transport = Transport()
    joined = JoinedWrites(transport)
    joined.write(HEAD)
    joined.close()
    for data in (HEAD, b"ok", HEAD):
        joined.write(data)
    joined.flush()
    joined.close()
    assert transport.sent == [HEAD, "closed", "closed"]


def test_a_head_that_waits_is_dropped_when_the_connection_is_lost():
    transport = Transport()
    joined = JoinedWrites(transport)
    joined.write(HEAD)
    transport.close()
    joined.flush()
    joined.write(b"ok")
    assert transport.sent == ["closed"]


def test_answers_without_a_body_are_sent(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m" / "1").parent))
    address = server.http_address
    connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT)
    for _ in range(2):
        connection.request("HEAD", "/v1/models/m")
        response = connection.getresponse()
        assert (response.status, response.read()) == (405, b"")
    connection.close()
