"""Measure the control plane of a master with many stub workers."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import numpy as np

import graphmill
from graphmill import ops
from graphmill.distributed.master.cluster_session import ClusterSession
from graphmill.distributed.master.worker_interface import WorkerInterface
from graphmill.distributed.worker.step_call import StepResult
from graphmill.runtime.devices.device import DeviceAttributes

if TYPE_CHECKING:
    from collections.abc import Callable


class StubWorker(WorkerInterface):
    """A worker that answers immediately and counts its requests.

    Args:
        task: its name.
        counts: calls and bytes by method; shared by all workers.
    """

    def __init__(self, task: str, counts: dict[str, list[int]]) -> None:
        self._device = DeviceAttributes(f"{task}/device:CPU:0", "CPU", 1 << 28)
        self._counts = counts

    def get_status(self, request: Any, done: Any) -> Any:
        response = graphmill.proto.GetStatusResponse(device_attributes=[self._device.to_proto()])
        return self._answer("GetStatus", request, done, response)

    def create_worker_session(self, request: Any, done: Any) -> Any:
        response = graphmill.proto.CreateWorkerSessionResponse()
        return self._answer("CreateWorkerSession", request, done, response)

    def delete_worker_session(self, request: Any, done: Any) -> Any:
        response = graphmill.proto.DeleteWorkerSessionResponse()
        return self._answer("DeleteWorkerSession", request, done, response)

    def register_graph(self, request: Any, done: Any) -> Any:
        response = graphmill.proto.RegisterGraphResponse(graph_handle="0")
        return self._answer("RegisterGraph", request, done, response)

    def deregister_graph(self, request: Any, done: Any) -> Any:
        response = graphmill.proto.DeregisterGraphResponse()
        return self._answer("DeregisterGraph", request, done, response)

    def cleanup_graph(self, request: Any, done: Any) -> Any:
        return self._answer("CleanupGraph", request, done, graphmill.proto.CleanupGraphResponse())

    def cleanup_all(self, request: Any, done: Any) -> Any:
        return self._answer("CleanupAll", request, done, graphmill.proto.CleanupAllResponse())

    def run_graph(self, session_handle: str, call: Any, done: Any) -> Any:
        del session_handle
        self._count("RunGraph", 0)
        done(StepResult({key: np.float32(0) for key in call.outputs}), None)
        return _cancel_ended

    def _answer(self, method: str, request: Any, done: Any, response: Any) -> Callable[[], None]:
        self._count(method, request.ByteSize())
        done(response, None)
        return _cancel_ended

    def _count(self, method: str, size: int) -> None:
        found = self._counts.setdefault(method, [0, 0])
        found[0] += 1
        found[1] += size


def chain_over(num_tasks: int) -> graphmill.Graph:
    """Return a graph with one node on each task, each reading the previous one."""
    graph = graphmill.Graph()
    with graph.as_default():
        value = graph.placeholder("float32", [], name="x")
        for number in range(num_tasks):
            with graph.device(f"/job:worker/task:{number}"):
                value = ops.math.neg(value, name=f"n{number}")
    return graph


def measure_stubs(num_tasks: int) -> str:
    """Return a table of the times of session creation, the first step and a later one."""
    counts: dict[str, list[int]] = {}
    tasks = [f"/job:worker/replica:0/task:{number}" for number in range(num_tasks)]
    workers = {task: StubWorker(task, counts) for task in tasks}
    times = [time.perf_counter()]
    session = ClusterSession(
        graphmill.default_host(), graphmill.proto.ConfigProto(), workers, tasks[0], (), 30.0
    )
    times.append(time.perf_counter())
    session.follow(chain_over(num_tasks))
    times.append(time.perf_counter())
    signature = (("x:0",), (f"n{num_tasks - 1}:0",), ())
    for _ in range(2):
        session.run(signature, [np.float32(1)], None, None)
        times.append(time.perf_counter())
    session.close()
    times.append(time.perf_counter())
    names = ("create the session", "extend the graph", "first step", "another step", "close")
    spans = [after - before for before, after in itertools.pairwise(times)]
    lines = [f"{num_tasks} tasks", "", "| what | time |", "|---|---:|"]
    lines += [f"| {name} | {span:.3f} s |" for name, span in zip(names, spans, strict=True)]
    lines += ["", "| method | calls | bytes of requests |", "|---|---:|---:|"]
    lines += [f"| {name} | {calls} | {size} |" for name, (calls, size) in counts.items()]
    return "\n".join(lines)


def _cancel_ended() -> None:
    """Cancel a call that has ended, which does nothing."""
