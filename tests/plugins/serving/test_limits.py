"""Limits on the resources of a client, and the responses beyond them."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import threading

import pytest
from tests.plugins.serving.served_models import (
    TIMEOUT,
    Client,
    options_for,
    write_line,
    write_waiting,
)

from graphmill_plugins.serving.requests.batching_options import BatchingOptions
from graphmill_plugins.serving.rest import application
from graphmill_plugins.serving.rest.content_encoding import decompress_gzip

PREDICT = "/v1/models/m:predict"
X = {"instances": [1.0]}


def connect(server):
    return socket.create_connection(tuple(server.http_address), timeout=TIMEOUT)


def received(connection):
    """Return all that the server sends until it closes the connection."""
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def head(length, *more):
    lines = [f"POST {PREDICT} HTTP/1.1", "Host: x", f"Content-Length: {length}", *more, "", ""]
    return "\r\n".join(lines).encode()


def in_thread(function, *arguments):
    """Run a function in a thread; return a function that waits for its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function(*arguments)))
    thread.start()

    def wait():
        thread.join(TIMEOUT)
        return results[0]

    return wait


def wait_for_metric(client, line):
    """Return when the metrics have a line."""
    while line not in client.text("GET", "/metrics")[1].splitlines():
        pass


def test_a_large_body_is_refused_before_it_is_sent(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m"), max_request_bytes=1000))
    with connect(server) as connection:
        connection.sendall(head(1001))
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the limit is 1000" in answer
    assert client.post(PREDICT, X)[0] == 200


def test_a_large_body_in_chunks_is_refused(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m"), max_request_bytes=1000))
    with connect(server) as connection:
        connection.sendall(
            head(0, "Transfer-Encoding: chunked").replace(b"Content-Length: 0\r\n", b"")
        )
        for _ in range(4):
            connection.sendall(b"190\r\n" + b" " * 400 + b"\r\n")
        assert received(connection).startswith(b"HTTP/1.1 413 ")


def compressed(server, body, encoding="gzip"):
    """Return the answer to a compressed body."""
    with connect(server) as connection:
        connection.sendall(
            head(len(body), f"Content-Encoding: {encoding}", "Connection: close") + body
        )
        return received(connection)


def test_gzip_bodies_are_read(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m")))
    answer = compressed(server, gzip.compress(json.dumps(X).encode()))
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"predictions" in answer


def test_the_access_log_has_the_size_of_a_gzip_body_as_received(serve, tmp_path, caplog):
    server, _ = serve(options_for(write_line(tmp_path / "m")))
    body = gzip.compress(json.dumps(X).ljust(2000).encode())
    with caplog.at_level(logging.INFO, application.ACCESS_LOG.name):
        compressed(server, body)
    (record,) = (one for one in caplog.records if one.name == application.ACCESS_LOG.name)
    assert record.fields["bytes_received"] == len(body)


def test_gzip_bodies_are_limited_by_their_content(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m"), max_request_bytes=1000))
    answer = compressed(server, gzip.compress(b" " * 10**6)[:1000])
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert client.post(PREDICT, X)[0] == 200


def test_gzip_contents_count_as_bodies_in_progress(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m"), max_pending_bytes=1000))
    assert compressed(server, gzip.compress(b" " * 2000)).startswith(b"HTTP/1.1 429 ")
    assert client.post(PREDICT, X)[0] == 200


def test_other_requests_are_answered_while_a_body_is_decompressed(serve, tmp_path, monkeypatch):
    begun, answered = threading.Event(), threading.Event()

    def decompress(body, limit):
        begun.set()
        assert answered.wait(TIMEOUT)
        return decompress_gzip(body, limit)

    monkeypatch.setattr(application, "decompress_gzip", decompress)
    server, client = serve(options_for(write_line(tmp_path / "m")))
    body = gzip.compress(json.dumps(X).ljust(5000).encode(), compresslevel=0)
    with connect(server) as connection:
        header = head(len(body), "Content-Encoding: gzip", "Connection: close")
        connection.sendall(header + body)
        assert begun.wait(TIMEOUT)
        assert client.get("/v2/health/live")[0] == 200
        answered.set()
        assert received(connection).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (b"{}", "gzip", 400),
        (gzip.compress(b"{}", mtime=0)[:-4], "gzip", 400),
        (gzip.compress(b"{}", mtime=0) * 2, "gzip", 400),
        (b"{}", "br", 415),
        (json.dumps(X).encode(), "identity", 200),
    ],
)
def test_other_encodings_and_damaged_bodies_are_refused(serve, tmp_path, body, encoding, status):
    server, _ = serve(options_for(write_line(tmp_path / "m")))
    assert compressed(server, body, encoding).startswith(b"HTTP/1.1 %d " % status)


def test_bodies_in_progress_are_limited_together(serve, tmp_path):
    options = options_for(write_line(tmp_path / "m"), max_pending_bytes=1000)
    server, client = serve(options)
    body = json.dumps(X).encode()
    with connect(server) as slow, connect(server) as other:
        slow.sendall(head(900) + b" ")
        wait_for_metric(client, "graphmill_serving_pending_bytes 900")
        other.sendall(head(200) + b" ")
        answer = received(other)
        slow.sendall(body.rjust(899))
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert answer.startswith(b"HTTP/1.1 429 ")
    assert b"retry-after: 1" in answer
    wait_for_metric(client, "graphmill_serving_pending_bytes 0")


@pytest.mark.parametrize("sent", [b"", b"POST ", head(100), head(100) + b"{"])
def test_a_slow_request_times_out(serve, tmp_path, sent):
    server, client = serve(options_for(write_line(tmp_path / "m"), receive_seconds=0.2))
    with connect(server) as connection:
        connection.sendall(sent)
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 408 ") if sent else answer == b""
    assert client.post(PREDICT, X)[0] == 200


def test_a_request_that_arrives_too_slowly_is_refused(serve, tmp_path):
    server, _ = serve(options_for(write_line(tmp_path / "m"), receive_seconds=0.3))
    with connect(server) as connection:
        connection.settimeout(0.02)
        answer = b""
        while not answer:
            connection.sendall(b"X")
            try:
                answer = connection.recv(65536)
            except TimeoutError:
                continue
    assert answer.startswith((b"HTTP/1.1 408 ", b"HTTP/1.1 400 "))


def test_endless_headers_are_refused(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m")))
    with connect(server) as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n")
        for _ in range(200):
            connection.sendall(b"A: " + b"x" * 1000 + b"\r\n")
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 431 ")
    assert client.get("/v2")[0] == 200


def test_garbage_is_answered_400(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m")))
    with connect(server) as connection:
        connection.sendall(b"\x16\x03\x01\x00\x00\r\n\r\n")
        answer = received(connection)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
        "error": "Invalid HTTP request received."
    }
    assert client.get("/v2")[0] == 200


def test_a_client_that_leaves_frees_its_bytes(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m")))
    with connect(server) as connection:
        connection.sendall(head(900) + b" ")
        wait_for_metric(client, "graphmill_serving_pending_bytes 900")
    wait_for_metric(client, "graphmill_serving_pending_bytes 0")


def test_too_many_connections_are_answered_503(serve, tmp_path):
    server, client = serve(options_for(write_line(tmp_path / "m"), max_connections=2))
    assert client.get("/v2")[0] == 200
    with connect(server) as second:
        second.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert second.recv(65536).startswith(b"HTTP/1.1 200 ")
        with connect(server) as third:
            third.sendall(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert third.recv(65536).startswith(b"HTTP/1.1 503 ")


def test_a_request_that_waits_too_long_is_answered_504(serve, tmp_path):
    _, client = serve(options_for(write_waiting(tmp_path / "m"), timeout_seconds=2.0))
    assert client.post(PREDICT, X)[0] == 504
    feed = {"signature_name": "feed", **X}
    # The step that was given up may take the first element before it ends.
    assert [client.post(PREDICT, feed)[0] for _ in range(2)] == [200, 200]
    assert client.post(PREDICT, X) == (200, {"predictions": [2.0]})


def test_waiting_requests_are_limited(serve, tmp_path):
    batching = BatchingOptions(num_threads=2, max_queued_requests=1)
    server, client = serve(options_for(write_waiting(tmp_path / "m"), batching=batching))
    others = [Client(server) for _ in range(3)]
    waiting = []
    for count, other in enumerate(others, 1):
        waiting.append(in_thread(other.post, PREDICT, X))
        in_flight = f"graphmill_serving_requests_in_flight {count + 1}"  # and that for the metrics
        wait_for_metric(client, in_flight)
    queued = 'graphmill_serving_queue_length{model="m",version="1"} 1'
    wait_for_metric(client, queued)
    status, document = client.post(PREDICT, X)
    assert (status, "which is the limit" in document["error"]) == (429, True)
    server.stop(0)
    assert {wait()[0] for wait in waiting} <= {499, 503, 504}
    for other in others:
        other.close()
