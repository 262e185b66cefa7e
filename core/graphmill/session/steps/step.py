"""Run one step: fill the call frame, run the executors, read the results (clause S6)."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import (
    CancelledError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from graphmill.memory import TransferredMemory
from graphmill.runtime.executor import ExecutorArgs, ExecutorBarrier
from graphmill.runtime.process.references import counts_prove_ownership, references_to
from graphmill.runtime.process.shutdown import SHUTDOWN
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod, executor_failure
from graphmill.runtime.steps.deadlock_detector import DeadlockDetector
from graphmill.runtime.steps.step_container import StepContainer
from graphmill.runtime.steps.step_runner import RUNNING, StepRunner, leave
from graphmill.runtime.threads.abandonable_thread import run_in_abandonable_thread
from graphmill.session.steps.step_ids import next_step_id
from graphmill.session.steps.transfer import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.runtime.steps.cancellation import CancellationManager
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys
    from graphmill.typing import Value


def run_step(
    session: DirectSession,
    executors: ExecutorsAndKeys,
    values: Sequence[Value],
    cancellation: CancellationManager | None = None,
) -> list[Value]:
    """Run a step without options; return its results as NumPy arrays and scalars.

    Args:
        session: the session of the step.
        executors: the executors of its signature.
        values: the converted values of the feeds.
        cancellation: cancels the step; a child of the session's manager, or None to use that.

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
        cancellation_manager=session.cancellation if cancellation is None else cancellation,
        session_state=session.session_state,
        session_handle=session.name,
        step_container=container,
        sync_on_finish=executors.syncs_devices,
    )
    run_executors(session, executors, args, executors.serving)
    return step_results(executors, frame, may_alias=session.fetches_may_alias)


def _run_items(session: DirectSession, items: Sequence[PerPartition], args: ExecutorArgs) -> None:
    if args.deadline is not None and not all(item.executor.honours_deadlines for item in items):
        _run_in_abandonable_thread(session, items, args)
    elif len(items) == 1:
        items[0].executor.run(args)
    else:
        _run_partitions(session, items, args)


@lru_cache(maxsize=16)
def _run_items_within(limit: int) -> Callable[..., None]:
    """Return `_run_items` with a memory budget, which the kernels then need not set."""
    from graphmill.memory_budget import with_memory_limit  # few sessions set a limit

    return with_memory_limit(limit, _run_items)


def run_executors(
    session: DirectSession,
    executors: ExecutorsAndKeys,
    args: ExecutorArgs,
    items: Sequence[PerPartition],
) -> None:
    """Run the executors of a step.

    Args:
        session: the session of the step.
        executors: the executors of its signature.
        args: the step.
        items: those of them that are serving; a rebuild may replace them during the step.

    Raises:
        OpError: the first error of the step.
        KeyboardInterrupt: the step was interrupted; a note says what it did.
    """
    if SHUTDOWN.has_begun:
        SHUTDOWN.exit_daemon()
    count = executors.step_count = executors.step_count + 1
    executors.last_step = args.step_id
    began = 0.0
    if count >= executors.build_at and session.hot_steps.build_later(executors):
        began = time.perf_counter()
    is_done = False
    thread = args.runner.owner
    outer = RUNNING.get(thread)
    RUNNING[thread] = args
    try:
        # Once for the step, not for each kernel: in TensorFlow overflow and NaN are values.
        with np.errstate(all="ignore"):
            limit = session.effects.memory_limit
            run = _run_items_within(limit) if limit else _run_items
            run(session, items, args)
    except OpError as error:
        if args.parent_cancellation is not None and args.parent_cancellation.is_cancelled:
            from graphmill.session.steps.step_waits import (
                describe_cancelled,  # few steps are cancelled
            )

            describe_cancelled(error, args, session.graph)
        if error.node is not None and not session.graph.has_node(error.node):
            from graphmill.explain.original_node import name_original_node  # few steps fail

            name_original_node(error, [item.graph for item in items], session.graph)
        session.add_location(error)
        raise
    except KeyboardInterrupt as interrupt:
        # A pending wait must not consume, after the step, what other steps wait for.
        args.start_cancel(CancelledError("the step was interrupted"))
        from graphmill.session.steps.step_waits import describe_interrupted

        describe_interrupted(interrupt, args, session.graph)
        raise
    except Exception as error:
        raise executor_failure(error, [item.executor for item in items]) from error
    else:
        is_done = True
        if began:
            session.hot_steps.count_seconds(executors, time.perf_counter() - began)
    finally:
        leave(thread, outer)
        args.close()
        if session.session_state.has_unsettled:
            fetches = executors.fetches if is_done else ()
            session.session_state.finish_step(args.step_id, fetches)
        container = args.step_container
        if container is not None and container.is_used:
            session.devices.clear_containers([container.name])


SHUTDOWN.busy_code.add(run_executors.__code__)


def _run_in_abandonable_thread(
    session: DirectSession, items: Sequence[PerPartition], args: ExecutorArgs
) -> None:
    def drive() -> None:
        if len(items) == 1:
            items[0].executor.run(args)
        else:
            _run_partitions(session, items, args)

    run_in_abandonable_thread(drive, args, [item.executor for item in items])


def _run_partitions(
    session: DirectSession, items: Sequence[PerPartition], args: ExecutorArgs
) -> None:
    args.rendezvous = session.new_rendezvous(args.step_id)
    barrier = ExecutorBarrier(len(items), args)
    for item in items:
        item.executor.run_async(args, barrier.partition_done)
    with DeadlockDetector(args), CancellationGracePeriod(args, [item.executor for item in items]):
        args.runner.run_until(lambda: barrier.is_done)
    if barrier.error is not None:
        raise barrier.error


def step_results(
    executors: ExecutorsAndKeys, frame: CallFrame, *, may_alias: bool = False
) -> list[Value]:
    """Return the results of a step that has ended, as NumPy arrays and scalars.

    Args:
        executors: the executors of its signature.
        frame: its call frame.
        may_alias: whether arrays may share the memory of constants and variables.

    Raises:
        InvalidArgumentError: a fetch was not computed.
    """
    retvals = frame.retvals
    to_host = executors.to_host
    results = []
    for index in range(len(retvals)):
        value = retvals[index]
        copy = to_host[index]
        # A device may use arrays for its own memory, or as handles of pending results.
        if type(value) is not np.ndarray or copy is not identity:
            if value is CallFrame.UNSET:
                raise InvalidArgumentError(
                    f"fetch '{executors.fetches[index]}' was not evaluated: it is in a branch that "
                    f"was not taken (dead), or its node was not run"
                )
            value = copy(value)
        elif not value.ndim:
            value = value[()]  # a scalar comes back as one, as in TensorFlow's Python API
        else:
            holders = references_to(value)  # before the call, which holds it too
            if not may_alias and not _is_exclusive(value, holders):
                value = _copied(value, executors.fetches[index])
        results.append(value)
    return results


def _copied(value: np.ndarray[Any, Any], fetch: str) -> np.ndarray[Any, Any]:
    """Return a copy; a broadcast view may be larger than all memory."""
    try:
        return value.copy()
    except MemoryError as error:
        raise ResourceExhaustedError(
            f"out of memory for the value of fetch '{fetch}': {error}"
        ) from error


def _is_exclusive(value: np.ndarray[Any, Any], holders: tuple[int, int]) -> bool:
    """Return whether nothing else references the memory, so that the caller can own it.

    Otherwise a caller could write into a variable or a constant through a fetched array.
    """
    references, base_references = holders
    if not value.flags.writeable or references > _ONLY_OURS:
        return False
    base: Any = value.base
    if base is None:
        return True
    if base_references > _BASE_ONLY_OURS:
        return False
    return type(base) is TransferredMemory or (
        type(base) is np.ndarray and base.base is None and base.flags.owndata
    )


def _count_ours() -> tuple[int, int]:
    """Return the result of `references_to` for an array that only a call frame holds.

    Smaller than any count where counts prove nothing, so that each fetch is copied.
    """
    if not counts_prove_ownership():
        return -1, -1
    retvals = [np.empty(2), np.empty(2)[:1]]
    counts = []
    for index in range(len(retvals)):
        value = retvals[index]
        counts.append(references_to(value))
    return counts[0][0], counts[1][1]


_ONLY_OURS, _BASE_ONLY_OURS = _count_ours()
