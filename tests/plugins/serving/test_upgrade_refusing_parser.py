"""Requests that offer to change to another protocol are answered as those that do not."""

from __future__ import annotations

import json

import pytest
from tests.plugins.serving.test_direct_exchange import (
    ANSWER,
    BODY,
    connection,  # noqa: F401 - a fixture
    direct,  # noqa: F401 - a fixture
    read_answers,
    request,
)

OFFER = (
    "Connection: Upgrade, HTTP2-Settings",
    "Upgrade: h2c",
    "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
)
OFFERING = request(*OFFER)


@pytest.fixture
def answer_of(connection):  # noqa: F811
    """Return a function that sends parts of a request, and returns status and document."""

    def send(*parts):
        for part in parts:
            connection.sendall(part)
        ((status, _, document),) = read_answers(connection, 1)
        return status, document

    return send


def test_an_offer_of_http_2_is_ignored(answer_of, direct):  # noqa: F811
    for _ in range(3):
        assert answer_of(OFFERING) == (200, ANSWER)
    assert direct == [BODY] * 3


@pytest.mark.parametrize("first", [30, 100, len(OFFERING) - len(BODY), len(OFFERING) - 3])
def test_an_offer_in_two_pieces_is_ignored(answer_of, first):
    for _ in range(2):
        assert answer_of(OFFERING[:first], OFFERING[first:]) == (200, ANSWER)


def test_an_offer_with_a_body_in_chunks_is_ignored(answer_of):
    head = request(*OFFER, "Transfer-Encoding: chunked", body=b"")
    head = head.replace(b"Content-Length: 0\r\n", b"")
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert answer_of(head + chunks) == (200, ANSWER)
    assert answer_of(request()) == (200, ANSWER)


def test_an_offer_of_a_web_socket_is_ignored(answer_of):
    offer = ("Connection: keep-alive, Upgrade", "Upgrade: websocket")
    status, document = answer_of(request(*offer, method="GET", path="/v2", body=b""))
    assert (status, document["name"]) == (200, "graphmill")


def test_many_offers_in_one_piece_are_answered_in_order(connection):  # noqa: F811
    count = 2000  # more than nested calls are possible
    bodies = [json.dumps({"instances": [float(i)]}).encode() for i in range(count)]
    connection.sendall(b"".join(request(*OFFER, body=body) for body in bodies))
    answers = read_answers(connection, count)
    assert [one[2] for one in answers] == [{"predictions": [i / 2 + 2]} for i in range(count)]


def test_an_offer_with_expect_gets_100_continue(connection):  # noqa: F811
    data = request(*OFFER, "Expect: 100-continue")
    connection.sendall(data[: -len(BODY)])
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(BODY)
    assert read_answers(connection, 1)[0][2] == ANSWER


def test_a_request_for_a_tunnel_is_refused(connection):  # noqa: F811
    connection.sendall(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n")
    ((status, headers, document),) = read_answers(connection, 1)
    assert (status, headers[b"connection"]) == (400, b"close")
    assert document == {"error": "Invalid HTTP request received."}
    assert connection.recv(100) == b""
