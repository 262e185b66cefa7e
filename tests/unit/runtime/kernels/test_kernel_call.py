"""Executors call kernels and wait for asynchronous ones."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import errors
from graphmill.runtime.executor import ExecutorArgs
from graphmill.runtime.kernels.kernel import KernelDef
from graphmill.runtime.kernels.kernel_call import call_and_wait, outcome_of, sync_device
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.runtime.steps import cancel_grace
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancellation import CancellationManager

REASON = errors.DeadlineExceededError("too late")


def kernel(compute: Any) -> OpKernel:
    return OpKernel(compute, KernelDef("Wait", compute, async_=True), "w", "Wait")


def step(**fields: Any) -> ExecutorArgs:
    return ExecutorArgs(1, CallFrame([], 0), **fields)


def test_kernel_outcome_is_outputs_or_exception() -> None:
    assert outcome_of(lambda x: x + 1, 1) == (2, None)
    outputs, error = outcome_of(lambda: [][0])
    assert outputs is None
    assert isinstance(error, IndexError)


def test_outcome_of_propagates_an_interrupt() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        outcome_of(interrupted)


def test_call_and_wait_does_not_block_the_step() -> None:
    args, order = step(), []

    def compute(x: int, done: Any) -> None:
        args.runner.post(lambda: order.append("other work"))
        args.runner.post(lambda: done(x + 1))

    assert call_and_wait(kernel(compute), [1], args) == 2
    assert order == ["other work"]


def test_call_and_wait_raises_the_error_passed_to_done() -> None:
    with pytest.raises(ValueError, match="bad"):
        call_and_wait(kernel(lambda done: done(error=ValueError("bad"))), [], step())


def test_call_and_wait_refuses_a_second_done() -> None:
    def compute(done: Any) -> None:
        done(1)
        done(2)

    with pytest.raises(errors.InternalError, match="the kernel of 'w' called done twice"):
        call_and_wait(kernel(compute), [], step())


def test_call_and_wait_ends_after_the_grace_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel_grace, "RUN_END_GRACE_SECONDS", 0.01)
    manager = CancellationManager()
    manager.start_cancel(REASON)
    with pytest.raises(errors.DeadlineExceededError, match=r"too late; after 0\.01 s a kernel had"):
        call_and_wait(kernel(lambda done: None), [], step(cancellation_manager=manager))


class Failing:
    name = "/device:NPU:0"

    def __init__(self, error: Exception) -> None:
        self.error = error

    def sync(self) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError("unplugged"), errors.InternalError, "the device failed: OSError: unplugged"),
        (errors.UnavailableError("busy"), errors.UnavailableError, "busy"),
    ],
)
def test_sync_device_raises_a_typed_error_that_names_the_device(
    error: Exception, kind: type[errors.OpError], message: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        sync_device(Failing(error))  # type: ignore[arg-type]
    assert caught.value.device == "/device:NPU:0"
