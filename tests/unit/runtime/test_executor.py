"""Executor arguments, and the combination of partitions into a step (clauses E2, E8, E9, E13)."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from graphmill import errors
from graphmill.runtime.executor import Executor, ExecutorArgs, ExecutorBarrier
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancellation import CancellationManager

FIRST = errors.InvalidArgumentError("first")


def step(**fields: Any) -> ExecutorArgs:
    return ExecutorArgs(1, CallFrame([], 0), **fields)


class Outcome(Executor):
    """An executor that ends with or without an error, immediately or when posted."""

    def __init__(self, error: errors.OpError | None = None, later: bool = False) -> None:
        self.error = error
        self.later = later

    def run_async(self, args: ExecutorArgs, done: Any) -> None:
        if self.later:
            args.runner.post(lambda: done(self.error))
        else:
            done(self.error)


@pytest.mark.parametrize("later", [False, True])
def test_e2_run_waits_and_raises(later: bool) -> None:
    Outcome(None, later).run(step())
    with pytest.raises(errors.InvalidArgumentError) as caught:
        Outcome(FIRST, later).run(step())
    assert caught.value is FIRST


def test_e2_executor_release_does_nothing_by_default() -> None:
    Outcome().close()


def test_e13_step_creates_cancellation_manager_on_demand() -> None:
    parent = CancellationManager()
    args = step(cancellation_manager=parent)
    args.start_cancel(FIRST)  # nobody waits: nothing is told
    assert not args.is_cancelled
    own = args.cancellation_manager
    assert own is args.cancellation_manager
    args.start_cancel(FIRST)
    assert own.is_cancelled
    assert args.is_cancelled
    assert args.cancel_reason() is FIRST
    assert not parent.is_cancelled


def test_e13_step_is_cancelled_with_its_parent() -> None:
    parent = CancellationManager()
    args = step(cancellation_manager=parent)
    assert not args.is_cancelled
    assert args.cancel_reason() is None
    parent.start_cancel(FIRST)
    assert args.is_cancelled
    assert args.cancel_reason() is FIRST
    assert args.cancellation_manager.is_cancelled


def test_e13_ended_step_is_removed_from_its_parent() -> None:
    parent = CancellationManager()
    args = step(cancellation_manager=parent)
    args.close()
    own = args.cancellation_manager
    args.close()
    parent.start_cancel()
    assert not own.is_cancelled


def test_e10_function_call_shares_all_but_the_frame() -> None:
    args = step(sync_on_finish=True, stats_collector="collector")
    frame = CallFrame([1], 1)
    call = args.for_call(frame)
    assert call.call_frame is frame
    assert (call.call_depth, call.sync_on_finish) == (1, False)
    assert (call.runner, call.stats_collector) == (args.runner, "collector")
    assert call.cancellation_manager is args.cancellation_manager
    assert call.for_call(frame).call_depth == 2


class Rendezvous:
    aborted: errors.OpError | None = None

    def start_abort(self, error: errors.OpError) -> None:
        self.aborted = error


def test_e9_the_barrier_is_done_with_the_last_partition() -> None:
    ended: list[Any] = []
    barrier = ExecutorBarrier(2, step(), ended.append)
    barrier.partition_done(None)
    assert not barrier.is_done
    barrier.partition_done(None)
    assert barrier.is_done
    assert ended == [None]


def test_e9_first_error_aborts_others_with_derived_errors() -> None:
    rendezvous = Rendezvous()
    args = step(rendezvous=rendezvous)
    manager = args.cancellation_manager
    barrier = ExecutorBarrier(3, args)
    barrier.partition_done(FIRST)
    assert rendezvous.aborted is FIRST
    assert manager.reason is FIRST
    late = errors.CancelledError("told to stop")
    barrier.partition_done(late)
    barrier.partition_done(FIRST)
    assert late.is_derived
    assert not FIRST.is_derived
    assert barrier.error is FIRST


def test_e8_the_root_cause_wins_over_an_error_that_is_derived() -> None:
    barrier = ExecutorBarrier(2, step())
    derived, cause = errors.CancelledError("told to stop"), errors.InternalError("cause")
    derived.is_derived = True
    barrier.partition_done(derived)
    barrier.partition_done(cause)
    assert barrier.error is cause


def test_a_call_has_everything_that_its_step_has() -> None:
    """The arguments of a function call have every attribute of the step's arguments."""
    args = ExecutorArgs(1, CallFrame([], 0), session_handle="h", deadline=2.0)
    call = args.for_call(CallFrame([], 0))
    own = {"_root", "call_frame", "call_depth", "sync_on_finish", "num_awaited", "receiving"}
    for name in set(ExecutorArgs.__slots__) - own:
        assert getattr(call, name) is getattr(args, name), name


def test_step_arguments_form_no_reference_cycle_s11() -> None:
    """Step arguments form no reference cycle, which would hold the results of a step."""
    args = ExecutorArgs(1, CallFrame((), 0))
    call = args.for_call(CallFrame((), 0))
    assert call.cancellation_manager is args.cancellation_manager
    assert not any(found is args for found in gc.get_referents(args))


def test_function_call_shares_step_state() -> None:
    """A function call shares the step's state."""
    fields = {name: object() for name in ("rendezvous", "session_state", "step_container")}
    args = step(**fields, session_handle="s", start_time=1.0, deadline=2.0, sync_on_finish=True)
    frame = CallFrame([], 0)
    call = args.for_call(frame)
    own = {"_root", "call_depth", "call_frame", "num_awaited", "receiving", "sync_on_finish"}
    for name in set(ExecutorArgs.__slots__) - own:
        assert getattr(call, name) is getattr(args, name), name
    assert call.call_frame is frame
    assert (call.call_depth, call.num_awaited, call.receiving) == (1, 0, {})
    assert call.sync_on_finish is False
    assert call.cancellation_manager is args.cancellation_manager
