"""Cluster tasks as separate processes, which a test can kill, stop and restart."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

from tests.plugins.distributed.served_master import TIMEOUT

import graphmill
from graphmill import ops
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SILENCE = 2.0
"""Seconds that a task of these clusters may be silent."""


class Task:
    """One task of a cluster.

    Args:
        cluster: the addresses of all tasks.
        index: the number of this one in the job `worker`.
        environment: more variables of the process.
    """

    def __init__(
        self, cluster: Mapping[str, Sequence[str]], index: int, **environment: str
    ) -> None:
        self.name = f"/job:worker/replica:0/task:{index}"
        self.address = cluster["worker"][index]
        self.target = f"grpc://{self.address}"
        self._arguments = [
            "--cluster",
            json.dumps(cluster),
            "--job",
            "worker",
            "--task",
            str(index),
            "--trust",
        ]
        self._environment = {"GRAPHMILL_SILENCE_SECONDS": str(SILENCE), **environment}
        self.process: subprocess.Popen[str]

    def launch(self) -> Self:
        """Start the process without waiting until it is ready."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "graphmill", "serve", *self._arguments],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **self._environment},
        )
        return self

    def wait_until_ready(self) -> Self:
        """Wait until the task accepts calls."""
        assert self.process.stdout is not None
        line = within(self.process.stdout.readline, f"the start of {self.name}", TIMEOUT)
        assert line == f"READY {self.address}\n"
        return self

    def kill(self) -> None:
        """Kill the process, as a crash does."""
        self.process.kill()
        self.process.wait(TIMEOUT)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def restart(self) -> None:
        """Kill the process, and start a new one at the same address."""
        self.kill()
        self.launch().wait_until_ready()

    def stop(self) -> None:
        """Stop the process (SIGSTOP), like a machine that swaps or hangs."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Continue the stopped process."""
        self.process.send_signal(signal.SIGCONT)


def waiting_graph() -> Any:
    """Return a graph whose step `wait` starts at task 0 and then waits at task 1.

    `has_started` returns when `wait` runs; `go_on` ends its waiting. `far` is the result of task 1
    alone, `near` of task 0.
    """
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        with graph.device("/job:worker/task:0"):
            started = ops.data_flow.fifo_queue_v2(
                component_types=["float32"], shared_name="started"
            )
            start = ops.data_flow.queue_enqueue_v2(started, [x], name="start")
            ops.data_flow.queue_dequeue_v2(started, component_types=["float32"], name="has_started")
            ops.math.neg(x, name="near")
        with graph.device("/job:worker/task:1"):
            waiting = ops.data_flow.fifo_queue_v2(
                component_types=["float32"], shared_name="waiting"
            )
            with graph.control_dependencies([start]):
                ops.data_flow.queue_dequeue_v2(waiting, component_types=["float32"], name="wait")
            ops.data_flow.queue_enqueue_v2(waiting, [x], name="go_on")
            ops.math.add_v2(x, x, name="far")
    return graph
