"""Requests that arrive in one piece are answered as those that arrive in several."""

from __future__ import annotations

import json
import re
import socket

import pytest
from tests.plugins.serving.served_models import TIMEOUT, options_for, write_line, write_waiting

from graphmill_plugins.serving.rest.application import Application
from graphmill_plugins.serving.rest.direct_exchange import DirectExchange

PREDICT = "/v1/models/m:predict"
BODY = json.dumps({"instances": [1.0]}).encode()
ANSWER = {"predictions": [2.5]}


def request(*more, path=PREDICT, method="POST", version="1.1", body=BODY):
    lines = [f"{method} {path} HTTP/{version}", "Host: x", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def connection(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m")))
    with socket.create_connection(tuple(server.http_address), timeout=TIMEOUT) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield connection


@pytest.fixture
def direct(monkeypatch):
    """Return the list of the bodies that were answered without ASGI."""
    bodies = []
    respond = Application.respond

    async def recorded(application, plan, client, body):
        if isinstance(body, bytes):
            bodies.append(body)
        return await respond(application, plan, client, body)

    monkeypatch.setattr(Application, "respond", recorded)
    return bodies


def read_answers(connection, count):
    """Return status, headers and document of some answers."""
    answers, data = [], b""
    while len(answers) < count:
        found = re.match(rb"(?s)HTTP/1.1 (\d+) .*?\r\n(.*?)\r\n\r\n", data)
        if found is None:
            data += connection.recv(65536) or pytest.fail("the connection was closed")
            continue
        headers = dict(line.split(b": ", 1) for line in found[2].split(b"\r\n"))
        end = found.end() + int(headers[b"content-length"])
        while len(data) < end:
            data += connection.recv(65536) or pytest.fail("the connection was closed")
        answers.append((int(found[1]), headers, json.loads(data[found.end() : end])))
        data = data[end:]
    return answers


def test_a_request_in_one_piece_is_answered_without_asgi(connection, direct):
    for _ in range(3):
        connection.sendall(request())
        ((status, headers, document),) = read_answers(connection, 1)
        assert (status, document) == (200, ANSWER)
        assert headers[b"content-type"] == b"application/json"
        assert b"connection" not in headers
        assert b"date" in headers
    assert direct == [BODY] * 3


@pytest.mark.parametrize("first", [10, 60, len(request()) - len(BODY), len(request()) - 3])
def test_a_request_in_two_pieces_is_answered_the_same(connection, direct, first):
    data = request()
    for _ in range(2):
        connection.sendall(data[:first])
        connection.sendall(data[first:])
        ((status, _, document),) = read_answers(connection, 1)
        assert (status, document) == (200, ANSWER)
    assert set(direct) <= {BODY}


def test_pipelined_requests_are_answered_in_order(connection):
    bodies = [json.dumps({"instances": [float(i)]}).encode() for i in range(5)]
    connection.sendall(b"".join(request(body=body) for body in bodies))
    answers = read_answers(connection, 5)
    assert [one[2] for one in answers] == [{"predictions": [i / 2 + 2]} for i in range(5)]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request("Connection: close"), 200),
        (request(version="1.0"), 200),
        (request("Connection: close", path="/v1/models/other:predict"), 404),
        (request("Connection: close", path=PREDICT + "?a=b"), 200),
        (request("Connection: close", path="http://x" + PREDICT), 200),
        (request("Connection: close", body=b"{"), 400),
        (request("Content-Encoding: br"), 415),
    ],
)
def test_connections_are_closed_when_they_should_be(connection, data, status):
    connection.sendall(data)
    ((found, headers, _),) = read_answers(connection, 1)
    assert (found, headers[b"connection"]) == (status, b"close")
    assert connection.recv(100) == b""


def test_requests_with_an_expect_header_get_100_continue(connection, direct):
    data = request("Expect: 100-continue")
    connection.sendall(data[: -len(BODY)])
    assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
    connection.sendall(BODY)
    assert read_answers(connection, 1)[0][2] == ANSWER
    assert direct == []


def test_a_client_that_leaves_while_its_model_waits_is_not_answered(serve, tmp_path):
    server, client = serve(options_for(write_waiting(tmp_path / "m"), timeout_seconds=1.0))
    with socket.create_connection(tuple(server.http_address), timeout=TIMEOUT) as connection:
        connection.sendall(request())
    while 'api="rest/predict",status="504"} 1' not in client.text("GET", "/metrics")[1]:
        pass
    assert client.get("/v2/health/live")[0] == 200


def test_an_answer_that_fails_closes_the_connection(connection, monkeypatch):
    monkeypatch.setattr(DirectExchange, "_write", lambda exchange, response: None)
    connection.sendall(request())
    assert connection.recv(100) == b""
