"""Merge the measurements of all tasks in a step into one `RunMetadata`.

Semantics: RetrieveLogs and ProcessStats in `tensorflow/core/distributed_runtime/master_session.cc`.
Unlike there, each device has one entry, and the nodes of a cost graph have unique ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.distributed.master.task_calls import TaskCalls
from graphmill.distributed.worker.step_call import StepResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.distributed.master.worker_interface import WorkerInterface
    from graphmill.proto.config_pb2 import RunMetadata
    from graphmill.proto.cost_graph_pb2 import CostGraphDef
    from graphmill.proto.step_stats_pb2 import DeviceStepStats, StepStats

LOG_SECONDS: Final = 2.0
"""Seconds to wait for the tasks' answers; the trace lacks the receives of tasks that are late."""


class ReceiveLogs:
    """The logs that tasks keep of their receives from each other while a step is traced.

    Args:
        workers: the workers of the step's tasks.
        step_id: id of the step.
    """

    def __init__(self, workers: Mapping[str, WorkerInterface], step_id: int) -> None:
        self._workers = workers
        self._step_id = step_id
        self._logging: list[str] = []

    def begin(self) -> None:
        """Switch the logs on; tasks that do not answer, or cannot log, are left out."""
        request = proto.LoggingRequest(enable_rpc_logging=True)
        self._logging = list(self._call(self._workers, request))

    def end(self) -> list[StepResult]:
        """Switch the logs off, and return their contents."""
        request = proto.LoggingRequest(disable_rpc_logging=True, fetch_step_id=[self._step_id])
        responses = self._call(self._logging, request)
        return [
            StepResult(step_stats=log.step_stats)
            for response in responses.values()
            for log in response.step
        ]

    def _call(self, tasks: Iterable[str], request: proto.LoggingRequest) -> dict[str, Any]:
        calls = TaskCalls()
        for task in tasks:
            calls.start(task, partial(self._workers[task].logging, request))
        calls.wait(LOG_SECONDS)
        calls.withdraw()
        return dict(calls.results)


def fill_metadata(metadata: RunMetadata, results: Iterable[StepResult]) -> None:
    """Add the measurements of the tasks to a `RunMetadata`."""
    devices: dict[str, DeviceStepStats] = {}
    for result in results:
        if result.step_stats is not None:
            _add_stats(metadata.step_stats, result.step_stats, devices)
        if result.cost_graph is not None:
            _add_costs(metadata.cost_graph, result.cost_graph)
        metadata.partition_graphs.extend(result.partition_graphs)


def _add_stats(whole: StepStats, part: StepStats, devices: dict[str, DeviceStepStats]) -> None:
    for stats in part.dev_stats:
        merged = devices.get(stats.device)
        if merged is None:
            devices[stats.device] = whole.dev_stats.add()
            devices[stats.device].CopyFrom(stats)
        else:
            merged.MergeFrom(stats)


def _add_costs(whole: CostGraphDef, part: CostGraphDef) -> None:
    """Add the nodes of a task, with ids after the existing ones."""
    offset = len(whole.node)
    for node in part.node:
        copied = whole.node.add()
        copied.CopyFrom(node)
        copied.id += offset
        copied.control_input[:] = [number + offset for number in node.control_input]
        for info in copied.input_info:
            info.preceding_node += offset
    whole.cost.extend(part.cost)
