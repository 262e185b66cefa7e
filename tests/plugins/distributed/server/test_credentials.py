"""Servers with mutual TLS accept only clients with a certificate."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill import errors, ops

pytest.importorskip("grpc")

from graphmill_plugins.distributed.credentials import SETTINGS, credentials_of
from graphmill_plugins.distributed.monitoring.status_client import cluster_status

FILES = Path(__file__).parents[3] / "data" / "tls"
OWN = (FILES / "own.pem", FILES / "own.key", FILES / "authority.pem")
STRANGER = (FILES / "stranger.pem", FILES / "stranger.key", FILES / "authority.pem")
NOBODY = ("", "", FILES / "authority.pem")


def config_with(files: Any) -> Any:
    config = graphmill.ConfigProto(operation_timeout_in_ms=20_000)
    made = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    for name, file in zip(SETTINGS, files, strict=True):
        made.parameter_map[name].s = str(file).encode()
    return config


@pytest.fixture
def alone() -> Any:
    with graphmill.Server(config=config_with(OWN)) as server:
        yield server.target


def test_clients_with_a_certificate_are_served(alone: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(3.0, name="y")
    with graphmill.Session(alone, graph=graph, config=config_with(OWN)) as session:
        assert session.run("y:0") == 3


@pytest.mark.parametrize("files", [STRANGER, NOBODY, None], ids=["stranger", "nobody", "plain"])
def test_others_are_refused(alone: str, files: Any) -> None:
    config = config_with(files) if files else graphmill.ConfigProto(operation_timeout_in_ms=20_000)
    with (
        graphmill.Session(alone, graph=graphmill.Graph(), config=config) as session,
        pytest.raises(errors.UnavailableError),
    ):
        session.list_devices()


def test_tasks_present_certificates_to_each_other() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        addresses = [f"127.0.0.1:{free.getsockname()[1]}" for free in (one, two)]
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(graphmill.float32, name="x")
        with graph.device("/job:worker/task:1"):
            doubled = ops.math.add_v2(x, x)
        ops.math.neg(doubled, name="y")
    config = config_with(OWN)
    with (
        graphmill.Server({"worker": addresses}, "worker", 1, config=config),
        graphmill.Server({"worker": addresses}, "worker", 0, config=config) as master,
        graphmill.Session(master.target, graph=graph, config=config) as session,
    ):
        assert session.run("y:0", {"x:0": 3.0}) == -6


def test_status_command_uses_certificates_of_environment(
    alone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(errors.UnavailableError):
        cluster_status(alone, 10)
    for name, file in zip(SETTINGS, OWN, strict=True):
        monkeypatch.setenv(f"GRAPHMILL_{name.upper()}", str(file))
    assert cluster_status(alone, 30)[0]["state"] == "serving"


@pytest.mark.parametrize(
    ("files", "is_server", "what"),
    [
        ((OWN[0], "", ""), False, "both tls_certificate and tls_private_key"),
        (("", OWN[1], ""), False, "both tls_certificate and tls_private_key"),
        (NOBODY, True, "a server has its own"),
        ((FILES / "nothing.pem", OWN[1], ""), False, "tls_certificate of plugin distributed names"),
    ],
)
def test_files_that_are_missing_are_reported(files: Any, is_server: bool, what: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=what):
        credentials_of(config_with(files), is_server=is_server)


def test_tls_is_off_without_files() -> None:
    assert credentials_of(graphmill.ConfigProto()) is None
    assert credentials_of(None) is None
