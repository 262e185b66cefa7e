"""The blocks of the how-to on servers that need the tasks of a cluster run against such tasks."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill.testing.timeouts import TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
BLOCK = re.compile(
    r"<!-- not run: needs the tasks; tests/docs/test_cluster_examples.py runs it -->\s*"
    r"^```python\n(.*?)^```",
    re.MULTILINE | re.DOTALL,
)


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """The ports of the tasks on the page: a parameter server and two workers."""
    found = free_ports(3)
    ps, *workers = [f"127.0.0.1:{port}" for port in found]
    cluster = {"ps": [ps], "worker": workers}
    with (
        graphmill.Server(cluster, "ps", 0),
        graphmill.Server(cluster, "worker", 0),
        graphmill.Server(cluster, "worker", 1),
    ):
        yield found


def blocks(ports: list[int]) -> tuple[str, str]:
    """Return the two blocks, with the addresses of the tasks."""
    nodes, collective = BLOCK.findall(PAGE.read_text("utf-8"))
    assert "grpc://127.0.0.1:7001" in nodes
    assert "{7001 + TASK}" in collective
    collective = collective.replace("{7001 + TASK}", f"{{{ports[1:]}[TASK]}}")
    return nodes.replace("127.0.0.1:7001", f"127.0.0.1:{ports[1]}"), collective


def test_nodes_on_several_tasks_compute_what_the_page_shows(ports: list[int]) -> None:
    nodes, _ = blocks(ports)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(nodes, {"__name__": "snippet"})
    assert "# [12. 24.]" in nodes
    assert printed.getvalue() == "[12. 24.]\n"


def test_collective_of_two_clients_gives_both_the_sum(ports: list[int]) -> None:
    _, collective = blocks(ports)
    assert "# [2. 3.] in both" in collective
    printed: dict[int, str] = {}
    lock = threading.Lock()

    def client(task: int) -> None:
        def note(value: Any) -> None:
            with lock:
                printed[task] = str(value)

        program = collective.replace("TASK = 0", f"TASK = {task}")
        exec(program, {"__name__": "snippet", "graphmill": graphmill, "print": note})

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(client, task) for task in (0, 1)]:
            done.result(TIMEOUT)
    assert printed == {0: "[2. 3.]", 1: "[2. 3.]"}
