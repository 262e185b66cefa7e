"""A forwarder connects clients without TLS to a server that requires it."""

from __future__ import annotations

import contextlib
import gc
import signal
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

pytest.importorskip("grpc")

from tests.plugins.distributed.server.test_credentials import OWN, STRANGER, config_with

from graphmill_plugins._server.address import parse_address
from graphmill_plugins.distributed.credentials import SETTINGS
from graphmill_plugins.distributed.server.forwarder import Forwarder, tls_context

ANYWHERE = parse_address("127.0.0.1:0")


@pytest.fixture
def server() -> Any:
    with graphmill.Server(config=config_with(OWN)) as made:
        yield parse_address(made.target.removeprefix("grpc://"))


def doubled(address: str, value: Any) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(graphmill.float32, name="x")
        ops.math.add_v2(x, x, name="y")
    config = graphmill.ConfigProto(operation_timeout_in_ms=20_000)
    with graphmill.Session(f"grpc://{address}", graph=graph, config=config) as session:
        return session.run("y:0", {"x:0": value})


def test_clients_without_tls_are_served(server: Any) -> None:
    with Forwarder(ANYWHERE, server, tls_context(config_with(OWN))) as forwarder:
        assert doubled(forwarder.address, 3.0) == 6
        large = np.ones(500_000, np.float32)
        np.testing.assert_array_equal(doubled(forwarder.address, large), large * 2)


def test_unknown_clients_are_refused(server: Any) -> None:
    with (
        Forwarder(ANYWHERE, server, tls_context(config_with(STRANGER))) as forwarder,
        pytest.raises(errors.UnavailableError),
    ):
        doubled(forwarder.address, 3.0)


def test_unreachable_server_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        away = parse_address(f"127.0.0.1:{nobody.getsockname()[1]}")
    with (
        Forwarder(ANYWHERE, away, tls_context(config_with(OWN))) as forwarder,
        pytest.raises(errors.UnavailableError),
    ):
        doubled(forwarder.address, 3.0)


def test_connections_that_begin_at_the_end_are_closed(server: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        handshakes = parse_address(f"127.0.0.1:{silent.getsockname()[1]}")
        for address in (server, handshakes) * 10:
            forwarder = Forwarder(ANYWHERE, address, tls_context(config_with(OWN)))
            local = parse_address(forwarder.address)
            clients = [socket.create_connection(local) for _ in range(4)]
            forwarder.close()
            for client in clients:
                with client, contextlib.suppress(ConnectionResetError):
                    while client.recv(1 << 16):  # what the server sent before
                        pass
    gc.collect()  # pytest reports sockets and transports that are not closed


def test_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = parse_address(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(errors.UnavailableError, match="cannot listen"):
            Forwarder(listen, ANYWHERE, tls_context(config_with(OWN)))


def test_a_closed_forwarder_has_freed_its_port(server: Any) -> None:
    forwarder = Forwarder(ANYWHERE, server, tls_context(config_with(OWN)))
    forwarder.close()
    forwarder.close()
    host, port = forwarder.address.split(":")
    with socket.create_server((host, int(port))):
        pass


def test_certificates_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(f"GRAPHMILL_{name.upper()}", raising=False)
    with pytest.raises(errors.InvalidArgumentError, match="a forwarder needs certificates"):
        tls_context()
    with pytest.raises(errors.InvalidArgumentError, match="cannot be used"):
        tls_context(config_with((OWN[1], OWN[1], OWN[2])))


def test_command_prints_its_address_and_ends_on_sigterm(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in zip(SETTINGS, OWN, strict=True):
        monkeypatch.setenv(f"GRAPHMILL_{name.upper()}", str(file))
    command = [sys.executable, "-m", "graphmill", "forward", f"grpc://{server}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        word, address = process.stdout.readline().split()
        assert word == "READY"
        for name in SETTINGS:
            monkeypatch.delenv(f"GRAPHMILL_{name.upper()}")
        assert doubled(address, 4.0) == 8
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
