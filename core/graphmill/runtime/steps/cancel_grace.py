"""`CancellationGracePeriod`: stop waiting for a run that does not end after its cancellation.

A step that is past its deadline is cancelled: waiting kernels are woken, the executor ends the run
when the last of them has returned, and calls `done`. An executor that never calls it, or a kernel
that never returns, would block the caller forever. So the caller gives up after a grace period. The
caller still waits for kernels that compute in a thread of the session's pool, because these return.

`executor_failure` is the error of a run whose executor raised; both name the executors alike.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from graphmill.errors import CancelledError, InternalError, OpError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from types import TracebackType

    from graphmill.runtime.executor import Executor, ExecutorArgs
    from graphmill.runtime.steps.step_runner import StepRunner

RUN_END_GRACE_SECONDS = 1.0
"""Seconds between the cancellation and giving up on `done`; ending a run takes milliseconds."""


class CancellationGracePeriod:
    """Give up driving a run that does not end within a grace period after its cancellation.

    A context manager around the driving of a run. After the grace period it raises an error of the
    same class as the cancellation, which names the executors.

    Args:
        args: the arguments of the run.
        executors: the executors of the run, for the message.

    Threads: used by the driving thread; other threads only call callbacks that `post` to its event
    loop.
    """

    __slots__ = ("_args", "_executors", "_has_ended", "_runner", "_timer", "_token")

    def __init__(self, args: ExecutorArgs, executors: Sequence[Executor]) -> None:
        self._args = args
        self._executors = executors
        self._runner: StepRunner = args.runner
        self._timer: threading.Timer | None = None
        self._token: int | None = None
        self._has_ended = False

    def __enter__(self) -> Self:
        self._runner.watches.append(self._listen)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._has_ended = True
        if self._listen in self._runner.watches:
            self._runner.watches.remove(self._listen)
            return
        if self._args.parent_cancellation is not None:
            self._args.parent_cancellation.deregister(self._token)
        if self._timer is not None:
            self._timer.cancel()

    def _listen(self) -> None:
        """Register for a cancellation; called once, before the driving thread first waits."""
        self._runner.watches.remove(self._listen)
        cancellation = self._args.parent_cancellation
        if cancellation is not None:
            self._token = cancellation.register(self._wait)
            if self._token is None:
                self._wait()

    def _wait(self) -> None:
        """Schedule the next check."""
        self._timer = timer = threading.Timer(
            RUN_END_GRACE_SECONDS, self._runner.post, [self._look]
        )
        timer.daemon = True
        timer.start()
        if self._has_ended:
            timer.cancel()

    def _look(self) -> None:
        """Give up if nothing is posted and no kernel computes in the pool."""
        if self._has_ended:
            return
        if self._runner.has_posted:
            self._runner.post(self._look)
        elif self._runner.num_computing:
            self._wait()
        else:
            raise self._error()

    def _error(self) -> OpError:
        count = self._args.num_awaited
        kernels = f", or {count} kernels have not ended" if count else ""
        why = f"`done` was not called{kernels}"
        return not_ended(self._args, self._executors, RUN_END_GRACE_SECONDS, why)


def not_ended(
    args: ExecutorArgs, executors: Sequence[Executor], seconds: float, why: str
) -> OpError:
    """Return the error of a run that did not end although it was cancelled.

    Args:
        args: the arguments of the run.
        executors: the executors of the run; the message names them with their distributions.
        seconds: how long the caller waited.
        why: the event that did not happen.
    """
    cancellation = args.parent_cancellation
    reason = (cancellation and cancellation.reason) or CancelledError("the step was cancelled")
    names = _names(executors) or "a kernel"
    return type(reason)(
        f"{reason.message}; after {seconds:g} s {names} had not ended the run: {why}",
        plugin=_plugin(executors),
    )


def executor_failure(error: Exception, executors: Collection[Executor]) -> InternalError:
    """Return the error of a run in which an executor raised an exception.

    Args:
        error: the exception.
        executors: the executors of the run; the message names them with their distributions.
    """
    text = f"{_names(executors)} failed: {type(error).__name__}: {error}"
    return InternalError(text, plugin=_plugin(executors))


def _names(executors: Collection[Executor]) -> str:
    return " and ".join(sorted({_name(executor) for executor in executors}))


def _plugin(executors: Collection[Executor]) -> str | None:
    """Return the first plugin that is not built in, of those that supplied the executors."""
    plugins = [e.owner.error_plugin for e in executors if e.owner and e.owner.error_plugin]
    return plugins[0] if plugins else None


def _name(executor: Executor) -> str:
    kind = f"the executor {type(executor).__module__}.{type(executor).__qualname__}"
    return kind if executor.owner is None else f"{kind} of {executor.owner}"
