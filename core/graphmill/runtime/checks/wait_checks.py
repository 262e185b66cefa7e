"""Detect kernels that wait for another node without declaring it: part of `GRAPHMILL_VALIDATE=1`.

A waiting call looks like a computing one. But one can observe that another node ends the wait: the
call of another kernel calls the `done` of an asynchronous kernel, or notifies a condition on which
a kernel's thread waits. Conditions are those of `threading`, on which its events, semaphores and
barriers, `queue.Queue` and futures are built.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError
from graphmill.runtime.process.profile_hook import calls_watched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import CodeType, FrameType

    from graphmill.runtime.kernels.op_kernel import OpKernel

_WAIT: Final[CodeType] = threading.Condition.wait.__code__
_NOTIFY: Final[CodeType] = threading.Condition.notify.__code__
_ENDS: Final = ("c_return", "c_exception")


class _Running(threading.local):
    """The kernel that the thread is calling; None in executors and other code."""

    kernel: OpKernel | None = None


class _Waiter:
    """A call that is in progress, and the kernel that ended its wait."""

    def __init__(self) -> None:
        self.woken_by: OpKernel | None = None


_RUNNING = _Running()
_WAITERS: Final[dict[int, _Waiter]] = {}
"""Keyed by the id of the lock that a thread waits for, which lives as long as the wait."""


def with_wait_check(compute: Callable[..., Any], kernel: OpKernel, name: str) -> Callable[..., Any]:
    """Wrap the call of a kernel so that it fails if another kernel ends one of its waits.

    Args:
        compute: the call.
        kernel: the kernel.
        name: the kernel with its op and plugin, for messages.
    """
    if kernel.definition.async_:
        return _asynchronous(compute, kernel, name)
    return _synchronous(compute, kernel, name)


def _asynchronous(compute: Callable[..., Any], kernel: OpKernel, name: str) -> Callable[..., Any]:
    def call(*inputs: Any, done: Callable[..., None]) -> None:
        def finished(outputs: Any = None, error: BaseException | None = None) -> None:
            other = _RUNNING.kernel
            if not (other is None or other is kernel or kernel.definition.may_wait):
                outputs, error = None, _contradiction(name, other)
            with _running(None):  # `done` is the executor's code
                done(outputs, error)

        with _running(kernel):
            compute(*inputs, done=finished)

    return call


def _synchronous(compute: Callable[..., Any], kernel: OpKernel, name: str) -> Callable[..., Any]:
    def call(*inputs: Any) -> Any:
        waiter = _Waiter()
        with _running(kernel), _profiled(waiter):
            result = compute(*inputs)
        if waiter.woken_by is None or kernel.definition.may_wait:
            return result
        raise _contradiction(name, waiter.woken_by)

    return call


@contextmanager
def _running(kernel: OpKernel | None) -> Iterator[None]:
    """Record the kernel that the thread runs."""
    before, _RUNNING.kernel = _RUNNING.kernel, kernel
    try:
        yield
    finally:
        _RUNNING.kernel = before


def _profiled(waiter: _Waiter) -> AbstractContextManager[None]:
    """Observe the waits and wake-ups of the thread, unless it is profiled already."""

    def watch(frame: FrameType, event: str, function: Any) -> None:
        code = frame.f_code
        if code is _WAIT and event in _ENDS and function.__name__ == "acquire":
            _note_acquired(function.__self__, waiter)
        elif code is _NOTIFY and event == "c_call" and function.__name__ == "release":
            _note_woken(function.__self__, waiter)

    return calls_watched(watch)


def _note_acquired(lock: Any, waiter: _Waiter) -> None:
    """Record that `Condition.wait` acquires the lock that it has created for the wait.

    It does so twice. The first acquisition begins the wait, so a notification before the thread
    blocks counts. The second one blocks, and its return or exception ends the wait.
    """
    if _WAITERS.pop(id(lock), None) is None:
        _WAITERS[id(lock)] = waiter


def _note_woken(lock: Any, waiter: _Waiter) -> None:
    """Record that the thread is about to end the wait of another one."""
    woken, other = _WAITERS.get(id(lock)), _RUNNING.kernel
    if woken is not None and woken is not waiter and other is not None:
        woken.woken_by = other


def _contradiction(name: str, other: OpKernel) -> InternalError:
    return InternalError(
        f"{name} waits for another node, but does not declare it: the kernel of node "
        f"{other.node_name} ({other.op}) ended the wait. Declare waits=True: compilers cluster "
        f"nodes and could cause a deadlock otherwise"
    )
