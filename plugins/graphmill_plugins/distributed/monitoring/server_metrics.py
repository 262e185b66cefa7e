"""Collect a server's metrics from the counters of its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.cluster import calls_by_tier
from graphmill_plugins._server.prometheus import Metric, Sample
from graphmill_plugins._server.status import code_name
from graphmill_plugins.distributed.wire.methods import MASTER_METHODS, WORKER_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill_plugins.distributed.master.service import MasterService
    from graphmill_plugins.distributed.monitoring.call_counters import CallCounters, MethodCounter
    from graphmill_plugins.distributed.transfer.counters import TransferCounters
    from graphmill_plugins.distributed.worker.service import WorkerService

_STEPS = (
    MASTER_METHODS["RunStep"].path,
    MASTER_METHODS["RunCallable"].path,
    WORKER_METHODS["RunGraph"].path,
)
_RECEIVE = WORKER_METHODS["RecvTensor"].path
_COUNTS = {
    "sessions": "Open sessions of clients.",
    "worker_sessions": "Sessions of masters that use this worker.",
    "registered_graphs": "Graphs that masters registered.",
    "running_steps": "Steps in progress.",
    "waiting_receives": "RecvTensor calls that wait for a tensor.",
    "steps": "Steps that ended, of clients and of masters.",
    "failed_steps": "Steps that ended with an error.",
}
_TOTALS = frozenset({"steps", "failed_steps"})


class ServerMetrics:
    """A server's counters as metrics with the label `task`.

    Args:
        task: the name of the server's task.
        calls: the counters of its calls.
        master, worker: its services.
    """

    def __init__(
        self, task: str, calls: CallCounters, master: MasterService, worker: WorkerService
    ) -> None:
        self._task = {"task": task}
        self._calls = calls
        self._master = master
        self._worker = worker

    def collect(self) -> list[Metric]:
        """Return the current metrics."""
        return [*self._of_calls(), *self._of_state(), *self._of_transfers(self._worker.transfers)]

    def counts(self) -> dict[str, int]:
        """Return the most important counts by name, for the status of the task."""
        codes = [counter.codes.copy() for counter in self._step_counters()]
        sessions = self._worker.worker.sessions.sessions()
        return {
            "sessions": len(self._master.sessions),
            "worker_sessions": len(sessions) - 1,  # one is there for masters that make none
            "registered_graphs": sum(len(session.graphs) for session in sessions),
            "running_steps": sum(counter.in_flight for counter in self._step_counters()),
            "waiting_receives": self._calls.num_in_flight(_RECEIVE),
            "steps": sum(by_code.total() for by_code in codes),
            "failed_steps": sum(by_code.total() - by_code[0] for by_code in codes),
        }

    def _step_counters(self) -> list[MethodCounter]:
        return [self._calls.by_path[path] for path in _STEPS]

    def _of_calls(self) -> Iterator[Metric]:
        counters = {path.split("/")[-1]: c for path, c in self._calls.by_path.items()}
        yield Metric(
            "graphmill_calls_total",
            "Calls that ended, by method and code; errors within responses count as errors.",
            "counter",
            [
                self._sample(number, method=method, code=code_name(code))
                for method, counter in counters.items()
                for code, number in sorted(counter.codes.copy().items())
            ],
        )
        for name, text in (
            ("request_bytes", "Bytes of requests, by method."),
            ("response_bytes", "Bytes of responses, by method."),
            ("seconds", "Total duration of calls in seconds, by method."),
        ):
            yield Metric(
                f"graphmill_call_{name}_total",
                text,
                "counter",
                [
                    self._sample(getattr(counter, name), method=method)
                    for method, counter in counters.items()
                    if counter.codes
                ],
            )

    def _of_state(self) -> Iterator[Metric]:
        for name, number in self.counts().items():
            is_total = name in _TOTALS
            yield Metric(
                f"graphmill_{name}_total" if is_total else f"graphmill_{name}",
                _COUNTS[name],
                "counter" if is_total else "gauge",
                [self._sample(number)],
            )
        sessions = self._worker.worker.sessions.sessions()
        graphs = [graph for session in sessions for graph in session.graphs.all()]
        executors = [
            *(graph.executors for graph in graphs),
            *self._master.cached_executors(),
        ]
        yield Metric(
            "graphmill_cluster_calls",
            "Calls of compiled clusters in sessions and graphs, by the tier that served them.",
            "gauge",
            [self._sample(number, tier=tier) for tier, number in calls_by_tier(executors).items()],
        )

    def _of_transfers(self, transfers: TransferCounters) -> Iterator[Metric]:
        for direction in ("sent", "received"):
            for unit in ("bytes", "tensors"):
                counts = dict(getattr(transfers, f"{direction}_{unit}"))
                yield Metric(
                    f"graphmill_{direction}_{unit}_total",
                    f"{unit.capitalize()} {direction} from task to task, by transfer path.",
                    "counter",
                    [self._sample(number, way=way) for way, number in counts.items()],
                )

    def _sample(self, value: float, **labels: str) -> Sample:
        return Sample({**self._task, **labels}, value)
