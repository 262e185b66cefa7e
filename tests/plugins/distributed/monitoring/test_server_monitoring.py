"""Status and metrics of a server while clients use it."""

from __future__ import annotations

import json
import logging
import socket
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import graphmill
from graphmill import errors, ops
from graphmill.cli.main import cli

pytest.importorskip("grpc")

from graphmill_plugins.distributed.monitoring.status_client import cluster_status

if TYPE_CHECKING:
    from collections.abc import Iterator


def config_with(port: Any) -> Any:
    config = graphmill.ConfigProto()
    settings = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    if isinstance(port, str):
        settings.parameter_map["metrics_port"].s = port.encode()
    else:
        settings.parameter_map["metrics_port"].i = port
    return config


@pytest.fixture
def server() -> Iterator[graphmill.Server]:
    with graphmill.Server(config=config_with(0)) as made:
        yield made


@pytest.fixture
def session(server: graphmill.Server) -> Iterator[graphmill.Session]:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(graphmill.float32, name="x")
        ops.array.check_numerics(ops.math.neg(x), message="no number", name="y")
    with graphmill.Session(server.target, graph=graph) as made:
        yield made


def scraped(server: Any, path: str = "/metrics") -> dict[str, str]:
    """Return the values by metric and labels, without the task's label."""
    url = f"http://{server._impl.metrics_address}{path}"
    with urllib.request.urlopen(url) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    task = 'task="/job:localhost/replica:0/task:0"'
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name.replace(f"{task},", "").replace(f"{{{task}}}", ""): n for name, n in pairs}


def test_steps_and_errors_are_counted(server: Any, session: Any) -> None:
    for _ in range(3):
        session.run("y:0", {"x:0": 1.0})
    with pytest.raises(errors.InvalidArgumentError):
        session.run("y:0", {"x:0": float("nan")})
    found = scraped(server)
    assert found['graphmill_calls_total{method="RunStep",code="OK"}'] == "3"
    assert found['graphmill_calls_total{method="RunStep",code="INVALID_ARGUMENT"}'] == "1"
    assert found["graphmill_steps_total"] == "4"
    assert found["graphmill_failed_steps_total"] == "1"
    assert found["graphmill_sessions"] == "1"
    assert found["graphmill_running_steps"] == "0"
    assert int(found['graphmill_call_request_bytes_total{method="RunStep"}']) > 40


def test_the_port_is_free_after_the_server_has_stopped(server: Any) -> None:
    host, port = server._impl.metrics_address.split(":")
    server.stop()
    with socket.create_server((host, int(port))):
        pass


def test_other_paths_are_not_found(server: Any) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        scraped(server, "/")


def test_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(errors.UnavailableError, match=f"cannot serve metrics .*{port}"):
            graphmill.Server(config=config_with(port))


@pytest.mark.parametrize("port", [-1, 70000, "http"])
def test_invalid_port_is_refused(port: Any) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="metrics_port of plugin distributed"):
        graphmill.Server(config=config_with(port))


def test_a_server_without_a_port_offers_none() -> None:
    with graphmill.Server() as server:
        assert server._impl.metrics_address is None


def run_command(*arguments: str) -> Any:
    return CliRunner().invoke(cli, ["cluster", "status", *arguments], standalone_mode=False)


def test_task_status_is_reported(server: Any, session: Any) -> None:
    session.run("y:0", {"x:0": 1.0})
    (task,) = cluster_status(server.target, 30)
    assert task["task"] == "/job:localhost/replica:0/task:0"
    assert task["state"] == "serving"
    assert (task["sessions"], task["steps"], task["failed_steps"]) == (1, 1, 0)
    assert [device["type"] for device in task["devices"]] == ["CPU"]
    shown = run_command(server.target.removeprefix("grpc://"))
    assert shown.exception is None
    assert "/job:localhost/replica:0/task:0" in shown.output
    assert json.loads(run_command(server.target, "--json").output)["tasks"][0]["steps"] == 1


def test_unreachable_task_is_listed_with_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        away = f"127.0.0.1:{nobody.getsockname()[1]}"
    cluster = {"worker": ["127.0.0.1:0", away]}
    with graphmill.Server(cluster, "worker", 0) as server:
        own, other = cluster_status(server.target, 5)
        shown = run_command(server.target)
    assert own["state"] == "serving"
    assert own["last_heartbeats"] == {other["task"]: None}
    assert (other["state"], other["address"]) == ("unreachable", away)
    assert other["error"].startswith("UNAVAILABLE")
    assert other["error"] in shown.output


def test_unreachable_target_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        away = f"grpc://127.0.0.1:{nobody.getsockname()[1]}"
    with pytest.raises(errors.UnavailableError, match="returned no status"):
        cluster_status(away, 5)


def test_sessions_and_calls_are_logged_with_their_fields(
    server: Any, session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "graphmill.server"):
        session.run("y:0", {"x:0": 1.0})
        session.close()
    events = {record.getMessage(): record.fields for record in caplog.records}
    handle = events["session created"]["session"]
    assert events["session closed"]["session"] == handle
    steps = [
        r.fields for r in caplog.records if getattr(r, "fields", {}).get("method") == "RunStep"
    ]
    assert steps[0]["session"] == handle
    assert steps[0]["request_id"]
    assert steps[0]["code"] == "OK"
    assert steps[0]["fetches"] == ["y:0"]
