"""Measure the resources of a cluster's servers; print the table of docs/explanation/capacity.md.

    python tools/measure_capacity.py [--workers 16] [--sessions 100] [--waiting 500]

Linux only: it reads /proc. Memory is the proportional set size, which counts shared pages once.
Other load on the machine affects the times.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

import graphmill
from graphmill import ops

MIB = 1024


class Task:
    """The process of one task."""

    def __init__(self, *options: str) -> None:
        began = time.monotonic()
        command = [sys.executable, "-m", "graphmill", "serve", "--grace", "0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("READY "):
            raise SystemExit(f"{command} did not start: {line!r}")
        self.target = f"grpc://{line.split()[1]}"
        self.seconds_to_ready = time.monotonic() - began
        self.folder = Path(f"/proc/{self.process.pid}")

    def pss(self) -> float:
        """Return its memory in MiB."""
        lines = (self.folder / "smaps_rollup").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / MIB

    def threads(self) -> int:
        return len(list((self.folder / "task").iterdir()))

    def sockets(self) -> int:
        links = [str(entry.readlink()) for entry in (self.folder / "fd").iterdir()]
        return sum(link.startswith("socket:") for link in links)

    def cpu_seconds(self) -> float:
        fields = (self.folder / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


def row(what: str, value: str) -> None:
    print(f"| {what} | {value} |", flush=True)


def one_server(idle_seconds: float) -> None:
    with Task() as task:
        row("a server is ready after", f"{task.seconds_to_ready:.1f} s")
        row("an idle server", f"{task.pss():.0f} MiB, {task.threads()} threads")
        began = task.cpu_seconds()
        time.sleep(idle_seconds)
        used = (task.cpu_seconds() - began) / idle_seconds
        row("an idle server's share of a core", f"{used:.1%}")


def doubled() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.mul(x, np.float32(2), name="y")
    return graph


def sessions(count: int) -> None:
    with Task() as task, ExitStack() as stack:

        def open_one() -> None:
            session = stack.enter_context(graphmill.Session(task.target, graph=doubled()))
            session.run("y:0", {"x:0": 1.0})

        for _ in range(5):
            open_one()
        before = task.pss()
        for _ in range(count):
            open_one()
        each = (task.pss() - before) * MIB / count
        row(f"each open session that has run a small graph (of {count})", f"{each:.0f} KiB")


def waiting(count: int) -> None:
    """Measure concurrent steps that wait for a queue."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], shared_name="q")
        taken = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])[0]
        size = ops.data_flow.queue_size_v2(queue)
        value = graph.placeholder("float32", [count], name="value")
        enqueue = ops.data_flow.queue_enqueue_many_v2(queue, [value])
    with Task() as task, graphmill.Session(task.target, graph=graph) as session:
        session.run(size)
        before = task.pss()
        waiters = [threading.Thread(target=session.run, args=(taken,)) for _ in range(count)]
        for waiter in waiters:
            waiter.start()
        while task.threads() < count:  # each step has a thread
            time.sleep(0.1)
        each = (task.pss() - before) * MIB / count
        began = time.monotonic()
        session.run(size)
        row(f"each step that waits (of {count})", f"{each:.0f} KiB, one thread")
        row("one more step at the same time", f"{1000 * (time.monotonic() - began):.0f} ms")
        session.run(enqueue, {value: np.ones(count, np.float32)})
        for waiter in waiters:
            waiter.join()


def spread(count: int) -> graphmill.Graph:
    """Return a graph with one node on each task, whose sum the first task computes."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        parts = []
        for index in range(count):
            with graph.device(f"/job:worker/task:{index}"):
                parts.append(ops.math.add_v2(x, np.float32(index)))
        with graph.device("/job:worker/task:0"):
            ops.math.add_n(parts, name="y")
    return graph


def cluster(count: int) -> None:
    from graphmill.distributed.cluster_resolver import SimpleClusterResolver

    spec = json.dumps({"worker": [f"127.0.0.1:{port}" for port in free_ports(count)]})
    addresses = SimpleClusterResolver(json.loads(spec)).cluster_spec()["worker"]
    with ExitStack() as stack:
        tasks = [
            stack.enter_context(Task("--cluster", spec, "--job", "worker", "--task", str(index)))
            for index in addresses
        ]
        sockets = tasks[0].sockets(), tasks[1].sockets()
        before = tasks[0].pss()
        began = time.monotonic()
        session = stack.enter_context(graphmill.Session(tasks[0].target, graph=spread(count)))
        session.run("y:0", {"x:0": 1.0})
        row(f"first step of a session on {count} tasks", f"{time.monotonic() - began:.1f} s")
        times = []
        for _ in range(200):
            began = time.monotonic()
            session.run("y:0", {"x:0": 1.0})
            times.append(time.monotonic() - began)
        row(
            f"a step with a part on each of {count} tasks",
            f"{1e3 * statistics.median(times):.1f} ms",
        )
        row("connections of its master", f"{tasks[0].sockets() - sockets[0]}")
        row("connections of another task", f"{tasks[1].sockets() - sockets[1]}")
        row("the master's memory for this session", f"{tasks[0].pss() - before:.1f} MiB")
        row(f"all {count} processes together", f"{sum(task.pss() for task in tasks):.0f} MiB")


def free_ports(count: int) -> list[int]:
    import socket

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    return ports


def main(arguments: Any = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=500)
    parser.add_argument("--idle-seconds", type=float, default=10.0)
    args = parser.parse_args(arguments)
    print("| what | measured |\n|---|---|")
    one_server(args.idle_seconds)
    sessions(args.sessions)
    waiting(args.waiting)
    cluster(args.workers)


if __name__ == "__main__":
    main()
