"""`TaskCalls`: the same call to several tasks at once, and its outcomes."""

from __future__ import annotations

import copy
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.master.worker_interface import Done, Withdraw
    from graphmill.errors import OpError


class TaskCalls:
    """Calls in flight, one for each task.

    Threads: outcomes arrive in any thread, guarded by `_changed`; one thread starts and waits.

    Attributes:
        results: the responses so far, by task.
        errors: the errors so far, by task, in order of arrival.
    """

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self.errors: dict[str, OpError] = {}
        self._changed = threading.Condition()
        self._pending: dict[str, Withdraw | None] = {}
        self._is_interrupted = False

    def start(self, task: str, begin: Callable[[Done], Withdraw]) -> None:
        """Start the call to a task; `begin` receives the callback for its outcome."""
        with self._changed:
            self._pending[task] = None
        withdraw = begin(lambda result, error: self._ended(task, result, error))
        with self._changed:
            if task in self._pending:
                self._pending[task] = withdraw

    @property
    def pending(self) -> list[str]:
        """The tasks that have not answered."""
        with self._changed:
            return list(self._pending)

    @property
    def has_root_error(self) -> bool:
        """Whether a task has failed with an error that is not derived from another one."""
        return any(not error.is_derived for error in self.errors.values())

    def interrupt(self) -> None:
        """End the wait; called by another thread."""
        with self._changed:
            self._is_interrupted = True
            self._changed.notify_all()

    def wait(self, timeout: float | None, *, until_error: bool = False) -> bool:
        """Wait until all tasks have answered; return False after the timeout.

        Args:
            timeout: in seconds; None for none.
            until_error: whether to return at the first error as well, and when interrupted.
        """
        with self._changed:
            return self._changed.wait_for(
                lambda: (
                    not self._pending
                    or (until_error and (bool(self.errors) or self._is_interrupted))
                ),
                timeout,
            )

    def wait_for_root(self, timeout: float | None) -> None:
        """Wait until there is an error that is not derived from another, or all have answered."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._pending or self.has_root_error or self._is_interrupted, timeout
            )

    def withdraw(self) -> None:
        """Cancel the calls that have not ended."""
        with self._changed:
            calls = [call for call in self._pending.values() if call is not None]
        for call in calls:
            call()

    def _ended(self, task: str, result: Any, error: OpError | None) -> None:
        with self._changed:
            if self._pending.pop(task, self) is self:
                return
            if error is None:
                self.results[task] = result
            else:
                self.errors[task] = error
            self._changed.notify_all()


def named(task: str, error: OpError) -> OpError:
    """Return an error that names the task that it is from."""
    copied = copy.copy(error)
    copied.message = f"From {task}:\n{error.message}"
    copied.args = (copied.message,)
    copied.__cause__ = error
    return copied


def root_cause(errors: dict[str, OpError]) -> OpError:
    """Return the error of a call to several tasks: the first that is not derived from another.

    Further ones of that kind are listed in its message.
    """
    roots = {task: error for task, error in errors.items() if not error.is_derived} or errors
    (task, first), *others = roots.items()
    cause = named(task, first)
    for other, error in others:
        if error.message != first.message:
            cause.message += f"\nFrom {other}:\n{error.message}"
    cause.args = (cause.message,)
    cause.is_derived = False
    return cause
