"""One step: call frame in, executors, call frame out; with its options and metadata (row S6)."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
)
from graphmill.plugin.step_observers import StepInfo
from graphmill.runtime.call_frame import CallFrame
from graphmill.runtime.cancellation import CancellationManager
from graphmill.runtime.executor import ExecutorArgs, ExecutorBarrier
from graphmill.runtime.rendezvous import IntraProcessRendezvous
from graphmill.runtime.step_container import StepContainer
from graphmill.runtime.step_runner import StepRunner
from graphmill.runtime.step_stats import StepStatsCollector
from graphmill.session.cost_model import cost_graph
from graphmill.session.options import as_message, give_back
from graphmill.session.step_ids import next_step_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys
    from graphmill.typing import Value

# References to a result that only the call frame holds: its list, our variable, getrefcount's own.
_ONLY_OURS = 3
_BASE_ONLY_OURS = 2


def run_step(
    session: DirectSession, executors: ExecutorsAndKeys, values: Sequence[Value]
) -> list[Value]:
    """Run a step without options; return its results as NumPy arrays and scalars.

    Raises:
        OpError: the first error of the step.
    """
    step_id = next_step_id()
    frame = CallFrame(values, len(executors.fetches))
    container = StepContainer(step_id)
    args = ExecutorArgs(
        step_id,
        frame,
        runner=StepRunner(session.pool),
        cancellation_manager=session.cancellation,
        session_state=session.session_state,
        step_container=container,
    )
    _run(session, executors, args)
    return _results(executors, frame)


def run_step_with_options(
    session: DirectSession,
    executors: ExecutorsAndKeys,
    values: Sequence[Value],
    options: Any,
    run_metadata: Any,
) -> list[Value]:
    """Run a step under `RunOptions`, telling observers, and fill `run_metadata` if it is given.

    Raises:
        DeadlineExceededError: `timeout_in_ms` ran out.
        OpError: the first error of the step.
    """
    run_options = as_message(proto.RunOptions, options, "options")
    collector = _collector(session, executors, run_options)
    step_id = next_step_id()
    frame = CallFrame(values, len(executors.fetches))
    cancellation = CancellationManager(session.cancellation)
    timeout_ms = run_options.timeout_in_ms or session.config.operation_timeout_in_ms
    args = ExecutorArgs(
        step_id,
        frame,
        runner=StepRunner(session.thread_pool(run_options.inter_op_thread_pool)),
        cancellation_manager=cancellation,
        session_state=session.session_state,
        stats_collector=collector,
        step_container=StepContainer(step_id),
        start_time=time.monotonic(),
        deadline=time.monotonic() + timeout_ms / 1000 if timeout_ms else None,
    )
    timer = _start_timer(timeout_ms, cancellation)
    metadata = None if run_metadata is None else proto.RunMetadata()
    failure: OpError | None = None
    observers = session.host.step_observers
    step = StepInfo(step_id, session.name, executors.feeds, executors.fetches, executors.targets)
    if observers is not None:
        observers.started(step)
    try:
        _run(session, executors, args)
    except OpError as error:
        failure = error
        raise
    finally:
        if timer is not None:
            timer.cancel()
        cancellation.close()
        if metadata is not None:
            _fill_metadata(metadata, executors, run_options, collector)
            give_back(metadata, run_metadata)
        if observers is not None:
            observers.finished(step, time.monotonic() - args.start_time, failure, metadata)
    return _results(executors, frame)


def _run(session: DirectSession, executors: ExecutorsAndKeys, args: ExecutorArgs) -> None:
    executors.step_count += 1
    executors.last_step = args.step_id
    try:
        # Once for the step, not for each kernel: in TensorFlow overflow and NaN are values.
        with np.errstate(all="ignore"):
            if len(executors.items) == 1:
                executors.items[0].executor.run(args)
            else:
                _run_partitions(executors, args)
    finally:
        args.close()
        container = args.step_container
        if container is not None and container.is_used:
            session.devices.clear_containers([container.name])


def _run_partitions(executors: ExecutorsAndKeys, args: ExecutorArgs) -> None:
    args.rendezvous = IntraProcessRendezvous()
    barrier = ExecutorBarrier(len(executors.items), args)
    for item in executors.items:
        item.executor.run_async(args, barrier.partition_done)
    args.runner.run_until(lambda: barrier.is_done)
    if barrier.error is not None:
        raise barrier.error


def _results(executors: ExecutorsAndKeys, frame: CallFrame) -> list[Value]:
    retvals = frame.retvals
    to_host = executors.to_host
    results = []
    for index in range(len(retvals)):
        value = retvals[index]
        if type(value) is not np.ndarray:
            if value is CallFrame.UNSET:
                raise InvalidArgumentError(
                    f"fetch '{executors.fetches[index]}' was not evaluated: it is in a branch that "
                    "was not taken (dead), or its node did not run"
                )
            value = to_host[index](value)
        elif not value.ndim:
            value = value[()]  # a scalar comes back as one, as in TensorFlow's Python API
        elif not _is_exclusive(value):
            value = value.copy()
        results.append(value)
    return results


def _is_exclusive(value: np.ndarray[Any, Any]) -> bool:
    """Return whether nobody else holds the memory, so that the caller may have it to write to.

    Without this a caller could write into a variable or a constant through what he fetched.
    """
    base = value.base
    if base is None:
        # One more reference than in the frame: this function's argument.
        return value.flags.writeable and sys.getrefcount(value) <= _ONLY_OURS + 1
    return (
        type(base) is np.ndarray
        and base.base is None
        and base.flags.owndata
        and value.flags.writeable
        and sys.getrefcount(base) <= _BASE_ONLY_OURS + 1
        and sys.getrefcount(value) <= _ONLY_OURS + 1
    )


def _start_timer(timeout_ms: int, cancellation: CancellationManager) -> threading.Timer | None:
    if not timeout_ms:
        return None
    error = DeadlineExceededError(f"the step did not end within its timeout of {timeout_ms} ms")
    timer = threading.Timer(timeout_ms / 1000, cancellation.start_cancel, [error])
    timer.daemon = True
    timer.start()
    return timer


def _collector(
    session: DirectSession, executors: ExecutorsAndKeys, options: Any
) -> StepStatsCollector | None:
    graph_options = session.config.graph_options
    every = graph_options.build_cost_model
    counted = executors.step_count + 1 - graph_options.build_cost_model_after
    if options.trace_level > proto.RunOptions.NO_TRACE or (every and counted % every == 0):
        return StepStatsCollector()
    return None


def _fill_metadata(
    metadata: Any, executors: ExecutorsAndKeys, options: Any, collector: StepStatsCollector | None
) -> None:
    if options.output_partition_graphs:
        from graphmill.graph.import_export import graph_to_graph_def

        for item in executors.items:
            metadata.partition_graphs.append(graph_to_graph_def(item.graph))
    if collector is not None:
        metadata.step_stats.CopyFrom(collector.to_proto())
        for item in executors.items:
            cost_graph(item.graph, item.device.name, collector, metadata.cost_graph)
