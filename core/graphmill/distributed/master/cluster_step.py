"""One step on several tasks: run all partitions, gather results, clean up; cancel on errors.

Semantics: `RunPartitions` in `tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.distributed.master.registered_signature import new_request_id
from graphmill.distributed.master.step_metadata import ReceiveLogs
from graphmill.distributed.master.task_calls import TaskCalls, root_cause
from graphmill.distributed.worker.step_call import StepCall
from graphmill.errors import DeadlineExceededError, InternalError, OpError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.distributed.master.registered_signature import RegisteredSignature
    from graphmill.distributed.master.worker_interface import WorkerInterface
    from graphmill.distributed.worker.step_call import StepResult
    from graphmill.proto.config_pb2 import RunOptions
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.typing import Value

ROOT_SECONDS: Final = 1.0
"""Seconds to wait for an error's cause after another task has reported a consequence."""
END_SECONDS: Final = 1.0
"""Seconds to wait for the tasks of a failed step after their cancellation."""


class ClusterStep:
    """A step, or all pieces of a partial run.

    Args:
        session_handle: the session on its workers.
        signature: the registered graphs; the caller has acquired it.
        workers: all workers of the session.
        step_id: id of the step, the same on all tasks.
        cancellation: cancels the step; cancelled with the session.
        is_partial: whether it is fed and fetched piece by piece.
        wants_costs: whether the tasks measure the costs of nodes.
    """

    def __init__(
        self,
        session_handle: str,
        signature: RegisteredSignature,
        workers: Mapping[str, WorkerInterface],
        step_id: int,
        cancellation: CancellationManager,
        *,
        is_partial: bool = False,
        wants_costs: bool = False,
    ) -> None:
        self.step_id = step_id
        self._session_handle = session_handle
        self._signature = signature
        self._workers = workers
        self.cancellation = cancellation
        self._is_partial = is_partial
        self._wants_costs = wants_costs

    def run(
        self,
        feeds: Mapping[str, Value],
        fetches: Sequence[str],
        options: RunOptions | None,
        timeout: float | None,
        *,
        is_last: bool = False,
    ) -> tuple[dict[str, Value], list[Any]]:
        """Run it on all tasks; return fetched values by name, and the result of each task.

        Args:
            feeds: tensors by name.
            fetches: names of tensors.
            options: the requested measurements.
            timeout: the timeout in seconds.
            is_last: whether it is the last piece of a partial run.

        Raises:
            DeadlineExceededError: the timeout expired; names the tasks that had not finished.
            OpError: the root cause; the other tasks have been cancelled.
        """
        calls = TaskCalls()
        token = self.cancellation.register(calls.interrupt)
        if token is None:
            raise self._cancelled()
        keys: dict[str, str] = {}
        logs = self._logs() if _is_traced(options) else None
        measured: list[StepResult] = []
        try:
            for task in self._signature.parts:
                call = self._call(task, feeds, fetches, options, keys, is_last=is_last)
                run_graph = self._workers[task].run_graph
                calls.start(task, partial(run_graph, self._session_handle, call))
            self._wait(calls, timeout)
        finally:
            self.cancellation.deregister(token)
            calls.withdraw()
            if logs is not None:
                measured = logs.end()
        results = [calls.results[task] for task in self._signature.parts]
        fetched = self._gathered(results, fetches, keys)
        if not _is_traced(options):
            for result in results:
                result.step_stats = None  # it has been used for the costs
        return fetched, [*results, *measured]

    def clean_up(self) -> None:
        """Request that all tasks end the step and drop its tensors, without waiting for them.

        A task that is down has nothing left of the step.
        """
        request = proto.CleanupGraphRequest(step_id=self.step_id)
        for task in self._signature.parts:
            self._workers[task].cleanup_graph(request, _ignore)

    def _logs(self) -> ReceiveLogs:
        logs = ReceiveLogs(
            {task: self._workers[task] for task in self._signature.parts}, self.step_id
        )
        logs.begin()
        return logs

    def _call(
        self,
        task: str,
        feeds: Mapping[str, Value],
        fetches: Sequence[str],
        options: RunOptions | None,
        keys: dict[str, str],
        *,
        is_last: bool,
    ) -> StepCall:
        part = self._signature.parts[task]
        own = {name: part.fetch_keys[name] for name in fetches if name in part.fetch_keys}
        keys.update(own)
        run_options = options or proto.RunOptions()
        return StepCall(
            self._signature.handles[task],
            self.step_id,
            {part.feed_keys[name]: feeds[name] for name in feeds if name in part.feed_keys},
            tuple(own.values()),
            record_costs=self._wants_costs,
            record_timeline=_is_traced(options),
            record_partition_graphs=run_options.output_partition_graphs,
            is_partial=self._is_partial,
            is_last_partial_run=is_last,
            request_id=new_request_id(),
        )

    def _wait(self, calls: TaskCalls, timeout: float | None) -> None:
        deadline = None if timeout is None else time.monotonic() + timeout
        calls.wait(timeout, until_error=True)
        late = calls.pending
        if not late and not calls.errors:
            return
        if calls.errors and not calls.has_root_error and late:
            left = ROOT_SECONDS if deadline is None else deadline - time.monotonic()
            calls.wait_for_root(max(0.0, min(left, ROOT_SECONDS)))
        errors = dict(calls.errors)  # later errors follow from the cancellation
        calls.withdraw()
        calls.wait(END_SECONDS)
        if self.cancellation.is_cancelled:  # errors of the tasks may follow from that
            raise self._cancelled()
        if errors:
            raise root_cause(errors)
        raise DeadlineExceededError(
            f"the step did not end within its timeout of {(timeout or 0) * 1000:.0f} ms; waiting "
            f"for {', '.join(late)}"
        )

    def _gathered(
        self, results: Sequence[Any], fetches: Sequence[str], keys: Mapping[str, str]
    ) -> dict[str, Value]:
        by_key = {key: value for result in results for key, value in result.outputs.items()}
        missing = [name for name in fetches if keys.get(name) not in by_key]
        if missing:
            raise InternalError(f"no task returned a value for {', '.join(missing)}")
        return {name: by_key[keys[name]] for name in fetches}

    def _cancelled(self) -> OpError:
        reason = self.cancellation.reason
        return InternalError("the step was cancelled") if reason is None else reason


def _is_traced(options: RunOptions | None) -> bool:
    return options is not None and options.trace_level > proto.RunOptions.NO_TRACE


def _ignore(response: Any, error: OpError | None) -> None:
    """Ignore an outcome that comes too late."""
    del response, error
