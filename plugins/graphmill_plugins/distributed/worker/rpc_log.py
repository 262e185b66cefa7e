"""`RpcLog`: record the durations of a step's receives, which a master fetches for its trace.

Semantics: `tensorflow/core/distributed_runtime/worker_cache_logger.cc`.
"""

from __future__ import annotations

import threading
from typing import Final

from graphmill.spi.executors import NodeStats, StepStatsCollector, describe_outputs, now, thread_id
from graphmill.spi.protos import proto

MAX_STEPS: Final = 64
"""Maximum number of logged steps; the oldest is dropped first."""
_OP: Final = "RecvTensor"


class RpcLog:
    """The receives from other tasks by step, recorded while a master has switched the log on.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_users = 0
        self._steps: dict[int, StepStatsCollector] = {}

    @property
    def is_on(self) -> bool:
        """Whether anything is recorded."""
        return self._num_users > 0

    def switch(self, *, on: bool) -> None:
        """Change the number of masters that use the log by one."""
        with self._lock:
            self._num_users = max(self._num_users + (1 if on else -1), 0)

    def clear(self) -> None:
        """Remove all records."""
        with self._lock:
            self._steps.clear()

    def answer(self, request: proto.LoggingRequest) -> proto.LoggingResponse:
        """Return the response to a master's request."""
        if request.enable_rpc_logging or request.disable_rpc_logging:
            self.switch(on=request.enable_rpc_logging)
        if request.clear:
            self.clear()
        taken = map(self.take, request.fetch_step_id)
        return proto.LoggingResponse(step=[step for step in taken if step is not None])

    def record(self, step_id: int, key: str, started: int, value: object) -> None:
        """Record a receive that has just ended."""
        source, _, target, edge, _ = key.split(";", 4)
        times = (thread_id(), started, started, now())
        stats = NodeStats(f"{_OP}:{edge} from {source}", _OP, *times, describe_outputs(value, 1))
        with self._lock:
            collector = self._steps.get(step_id)
            if collector is None:
                collector = self._steps[step_id] = StepStatsCollector()
                if len(self._steps) > MAX_STEPS:
                    del self._steps[next(iter(self._steps))]
        collector.record(target, stats)

    def take(self, step_id: int) -> proto.LabeledStepStats | None:
        """Remove and return the records of a step; None if there are none."""
        with self._lock:
            collector = self._steps.pop(step_id, None)
        if collector is None:
            return None
        return proto.LabeledStepStats(step_id=step_id, step_stats=collector.to_proto())
