"""Start the processes of the benchmark: servers of either system, and the client."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from serving.cases import Case

HERE = Path(__file__).resolve().parent


class Cluster:
    """A single server, and a cluster of two tasks.

    Attributes:
        ready_seconds: from the start of the first process until it took calls.
        idle_megabytes: what that process held then, by /proc; 0 where there is none.
    """

    def __init__(self, targets: dict[str, str], ready_seconds: float, idle: float) -> None:
        self._targets = targets
        self.ready_seconds = ready_seconds
        self.idle_megabytes = idle

    def target(self, case: Case) -> str:
        """Return the target of a case."""
        return self._targets[case.graph]


@contextlib.contextmanager
def start_cluster(python: str, is_ours: bool, paths: Sequence[str]) -> Iterator[Cluster]:
    """Start the servers of one system; they end with the context."""
    alone, first, second = free_addresses(3)
    pair = {"worker": [first, second]}
    with contextlib.ExitStack() as stack:
        started = time.perf_counter()
        server = stack.enter_context(_server(python, is_ours, paths, {"worker": [alone]}, 0))
        _wait(server)
        seconds = time.perf_counter() - started
        idle = resident_megabytes(server.pid)
        tasks = [stack.enter_context(_server(python, is_ours, paths, pair, n)) for n in (0, 1)]
        for task in tasks:
            _wait(task)
        yield Cluster({"alone": f"grpc://{alone}", "pair": f"grpc://{first}"}, seconds, idle)


class Client:
    """A process that runs steps on servers.

    Args:
        python: the interpreter.
        is_ours: whether it is a client of graphmill.
        folder: where the graphs are.
        paths: where graphmill is.
    """

    def __init__(self, python: str, is_ours: bool, folder: Path, paths: Sequence[str]) -> None:
        system = "graphmill" if is_ours else "tensorflow"
        self._process = subprocess.Popen(
            [python, str(HERE / "client.py"), system, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(is_ours, paths),
        )

    def measure(self, case: Case, target: str) -> float:
        """Run a round of a case; return the seconds per step (over all threads)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([*case, target]), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the client has ended; its error is above")
        return float(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)


def free_addresses(count: int) -> list[str]:
    """Return unused addresses."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]


def resident_megabytes(pid: int) -> float:
    """Return the resident memory of a process; 0 if /proc does not report it."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0.0
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines["VmRSS"].split()[0]) / 1024


@contextlib.contextmanager
def _server(
    python: str, is_ours: bool, paths: Sequence[str], cluster: dict[str, Any], task: int
) -> Iterator[subprocess.Popen[str]]:
    arguments = ["--cluster", json.dumps(cluster), "--job", "worker", "--task", str(task)]
    command = ["-m", "graphmill", "serve"] if is_ours else [str(HERE / "tensorflow_server.py")]
    process = subprocess.Popen(
        [python, *command, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(is_ours, paths),
    )
    try:
        yield process
    finally:
        _end(process)


def _wait(server: subprocess.Popen[str]) -> None:
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line.startswith("READY"):
        raise RuntimeError(f"a server did not start: {line!r}; its error is above")


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def _environment(is_ours: bool, paths: Sequence[str]) -> dict[str, str]:
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2", CUDA_VISIBLE_DEVICES="-1")
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if is_ours:
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    else:
        environment.pop("PYTHONPATH", None)
    return environment
