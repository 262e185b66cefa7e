"""Run one step under `RunOptions`: timeout, statistics, observers (clause S6)."""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from graphmill import proto
from graphmill.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from graphmill.runtime.executor import ExecutorArgs
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.step_container import StepContainer
from graphmill.runtime.steps.step_runner import StepRunner
from graphmill.runtime.steps.step_stats import StepStatsCollector, now
from graphmill.session.options import as_message
from graphmill.session.reports.cost_model import is_cost_step
from graphmill.session.steps.step import run_executors, step_results
from graphmill.session.steps.step_ids import next_step_id

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.plugin.step_observers import StepInfo
    from graphmill.proto.config_pb2 import ConfigProto, RunMetadata, RunOptions
    from graphmill.runtime.threads.deadline_timers import DeadlineTimer
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys
    from graphmill.typing import Value


def run_step_with_options(
    session: DirectSession,
    executors: ExecutorsAndKeys,
    values: Sequence[Value],
    options: RunOptions | None,
    run_metadata: RunMetadata | None,
    cancellation: CancellationManager | None = None,
) -> list[Value]:
    """Run a step under `RunOptions`; notify observers and fill `run_metadata` if it is given.

    Args:
        session: the session of the step.
        executors: the executors of its signature.
        values: the converted values of the feeds.
        options: the options; None for the defaults.
        run_metadata: filled with the metadata of the step, if given.
        cancellation: cancels the step; a child of the session's manager, or None to use that.

    Raises:
        DeadlineExceededError: `timeout_in_ms` ran out.
        OpError: the first error of the step.
    """
    run_options = as_message(proto.RunOptions, options, "options")
    _check_partition_graphs(run_options, session.config)
    pool = session.thread_pool(run_options.inter_op_thread_pool)
    measurement = _Measurement(session, executors, run_options)
    timeout = _timeout(run_options, session.config)
    cancellation = CancellationManager(
        session.cancellation if cancellation is None else cancellation
    )
    step_id = next_step_id()
    frame = CallFrame(values, len(executors.fetches))
    args = ExecutorArgs(
        step_id,
        frame,
        runner=StepRunner(pool),
        cancellation_manager=cancellation,
        session_state=session.session_state,
        session_handle=session.name,
        stats_collector=measurement.collector,
        step_container=StepContainer(step_id),
        sync_on_finish=executors.syncs_devices,
        start_time=time.monotonic(),
        deadline=None if timeout is None else time.monotonic() + timeout,
    )
    if run_options.debug_options.debug_tensor_watch_opts:
        from graphmill.session.debugging.debug_metadata import publish_step  # few steps are watched

        signature = executors.feeds, executors.fetches, executors.targets
        broker = session.effects.broker("a debug watch")
        publish_step(signature, run_options, step_id, executors.step_count, broker)
    with _WatchedStep(args, cancellation, timeout, measurement, run_metadata):
        measurement.run(args)
    return step_results(executors, frame, may_alias=session.fetches_may_alias)


class _Measurement:
    """What a step records.

    Attributes:
        session, executors, options: the step's.
        items: the executors that run.
        collector: the statistics of nodes and memory; None if nothing is recorded.
    """

    def __init__(
        self, session: DirectSession, executors: ExecutorsAndKeys, options: RunOptions
    ) -> None:
        self.session, self.executors, self.options = session, executors, options
        self.items: Sequence[PerPartition] = executors.serving
        self._wants_costs = is_cost_step(session.config.graph_options, executors.step_count)
        self._is_traced = self._wants_costs or options.trace_level > proto.RunOptions.NO_TRACE
        self._reports_memory = options.report_tensor_allocations_upon_oom
        is_recorded = self._is_traced or self._reports_memory
        self.collector = StepStatsCollector() if is_recorded else None
        self._started = now()

    def run(self, args: ExecutorArgs) -> None:
        """Run the step; if memory runs out, report what it holds if that was requested."""
        if self.collector is None:
            run_executors(self.session, self.executors, args, self.items)
            return
        from graphmill.runtime.steps.activity import step_activity  # few steps are traced

        try:
            with step_activity(args.step_id):
                run_executors(self.session, self.executors, args, self.items)
        except ResourceExhaustedError as error:
            if self._reports_memory:
                from graphmill.session.reports.memory_report import add_memory_report

                add_memory_report(error, self.session.devices, self.collector)
            raise

    def fill(self, run_metadata: RunMetadata, *, has_failed: bool) -> RunMetadata:
        """Fill in the metadata of the ended step; return it as graphmill's message."""
        from graphmill.session.reports.step_metadata import Measured, fill_metadata  # few want it

        measured = None
        if self.collector is not None and self._is_traced:
            ended = None if has_failed else now()
            measured = Measured(
                *(self.collector, self.executors, self.items, self._started, ended),
                self.session.host.ops,
            )
        return fill_metadata(
            *(run_metadata, self.items, self.options, self.session.config, measured),
            wants_costs=self._wants_costs,
        )


class _WatchedStep:
    """A context manager for a step with a timeout, observers, and a caller who wants metadata."""

    def __init__(
        self,
        args: ExecutorArgs,
        cancellation: CancellationManager,
        timeout: float | None,
        measurement: _Measurement,
        run_metadata: RunMetadata | None,
    ) -> None:
        self._args, self._cancellation, self._timeout = args, cancellation, timeout
        self._measurement, self._run_metadata = measurement, run_metadata
        self._observers = measurement.session.host.step_observers
        self._timer: DeadlineTimer | None = None
        self._step: StepInfo | None = None

    def __enter__(self) -> Self:
        if self._timeout is not None:
            self._timer = _start_timer(self._timeout, self._cancellation)
        if self._observers is not None:
            measurement = self._measurement
            self._step = _step_info(self._args.step_id, measurement.session, measurement.executors)
            self._observers.started(self._step)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._cancellation.close()
        failure = error if isinstance(error, OpError) else None
        metadata = None
        if self._run_metadata is not None:
            metadata = self._measurement.fill(self._run_metadata, has_failed=failure is not None)
        if self._observers is not None and self._step is not None:
            seconds = time.monotonic() - self._args.start_time
            self._observers.finished(self._step, seconds, failure, metadata)


def _step_info(step_id: int, session: DirectSession, executors: ExecutorsAndKeys) -> StepInfo:
    """Return the argument of step observers; None if the host has none."""
    from graphmill.plugin.step_observers import StepInfo

    return StepInfo(step_id, session.name, executors.feeds, executors.fetches, executors.targets)


def _timeout(options: RunOptions, config: ConfigProto) -> float | None:
    """Return the timeout of the step in seconds; None for none."""
    milliseconds = options.timeout_in_ms
    if milliseconds <= 0:
        milliseconds = config.operation_timeout_in_ms
    return min(milliseconds / 1000, threading.TIMEOUT_MAX) if milliseconds > 0 else None


def _start_timer(timeout: float, cancellation: CancellationManager) -> DeadlineTimer:
    from graphmill.runtime.threads.deadline_timers import DEADLINE_TIMERS  # few steps have one

    error = DeadlineExceededError(
        f"the step did not end within its timeout of {timeout * 1000:.0f} ms"
    )
    return DEADLINE_TIMERS.start(timeout, partial(cancellation.start_cancel, error))


def _check_partition_graphs(options: RunOptions, config: ConfigProto) -> None:
    if options.output_partition_graphs and config.experimental.disable_output_partition_graphs:
        raise InvalidArgumentError(
            "RunOptions.output_partition_graphs() is not supported when "
            "disable_output_partition_graphs is true."
        )
