"""TensorFlow's clients get equal results from our clusters and TensorFlow's (W2, W3)."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.oracle

CHILD = Path(__file__).with_name("cluster_clients_child.py")
TIMEOUT = 400
PARTS = [
    *("devices", "tasks", "shared_variables", "shared_queue", "barrier", "control_flow_v1"),
    *(
        "control_flow_v2",
        "partial_runs",
        "callables",
        "functions",
        "collectives",
        "errors",
        "nowhere",
        "timeout",
        "trace",
        "synchronous_replicas",
    ),
    *("monitored_training", "reset"),
]
TASKS = [("ps", 0), ("worker", 0), ("worker", 1)]
# Where graphmill and TensorFlow are in different environments, this names TensorFlow's Python.
PYTHON = os.environ.get("GRAPHMILL_TENSORFLOW_PYTHON", sys.executable)


def our_server(cluster: str, job: str, task: int) -> list[str]:
    arguments = ["--cluster", cluster, "--job", job, "--task", str(task)]
    return [sys.executable, "-m", "graphmill", "serve", "--trust", *arguments]


def their_server(cluster: str, job: str, task: int) -> list[str]:
    return [PYTHON, str(CHILD), "serve", cluster, job, str(task)]


def free_addresses(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def outcome_on(command: Any) -> dict[str, Any]:
    """Run the clients on a new cluster; return the result of each part."""
    ps, *workers = free_addresses(3)
    cluster = json.dumps({"ps": [ps], "worker": workers})
    with contextlib.ExitStack() as stack:
        servers = [
            stack.enter_context(
                subprocess.Popen(command(cluster, *task), stdout=subprocess.PIPE, text=True)
            )
            for task in TASKS
        ]
        for server in servers:
            stack.callback(server.kill)
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("READY ")
        run = subprocess.run(
            [PYTHON, str(CHILD), *(f"grpc://{worker}" for worker in workers)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    assert run.returncode == 0, run.stderr[-4000:]
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("RESULT ")]
    found: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return found


@pytest.fixture(scope="module")
def ours():
    return outcome_on(our_server)


@pytest.fixture(scope="module")
def theirs():
    return outcome_on(their_server)


def test_clients_run_all_parts_on_our_cluster(ours):
    assert list(ours) == PARTS


def test_clients_run_all_parts_on_tensorflows_cluster(theirs):
    assert list(theirs) == PARTS


def test_both_members_of_collectives_report(ours):
    assert sorted(ours["collectives"]) == ["0", "1"]


@pytest.mark.parametrize("part", PARTS)
def test_clients_of_tensorflow_see_no_difference(ours, theirs, part):
    assert ours[part] == theirs[part]
