"""A queue of waiting callers with callbacks, removed when their step is cancelled."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from graphmill.errors import CancelledError
from graphmill.spi.process import track_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import CancellationManager


class Waiting:
    """One caller.

    Attributes:
        done: called once, with `error` if it was cancelled; outside of all locks.
        request: what it waits for.
    """

    __slots__ = ("_cancellation", "_token", "done", "request")

    def __init__(self, done: Callable[..., None], request: Any = None) -> None:
        self.done = done
        self.request = request
        self._cancellation: CancellationManager | None = None
        self._token: int | None = None

    def note_token(self, cancellation: CancellationManager, token: int) -> None:
        """Remember what to withdraw when it is served."""
        self._cancellation, self._token = cancellation, token

    def leave(self) -> None:
        """Withdraw from the step's cancellation: it is served."""
        if self._cancellation is not None:
            self._cancellation.deregister(self._token)


class WaitingLine:
    """Callers in the order in which they came.

    Threads: `lock` is the lock of what they wait for; `first` and `served` are called under it.
    """

    def __init__(self, lock: Any, what: str) -> None:
        self._lock = lock
        self._what = what
        self._line: deque[Waiting] = deque()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget who waits: those steps are not in this process."""
        self._line.clear()

    @property
    def first(self) -> Waiting | None:
        """The caller in front."""
        return self._line[0] if self._line else None

    def served(self) -> Waiting:
        """Take the caller in front out of the line."""
        return self._line.popleft()

    def join(self, waiting: Waiting) -> None:
        """Add a caller; under the lock."""
        self._line.append(waiting)

    def watch(self, waiting: Waiting, cancellation: CancellationManager | None) -> None:
        """Have a caller leave the line when its step is cancelled; outside the lock."""
        if cancellation is None:
            return
        token = cancellation.register(lambda: self._cancel(waiting))
        if token is None:
            self._cancel(waiting)
            return
        with self._lock:
            if waiting in self._line:
                waiting.note_token(cancellation, token)
                return
        cancellation.deregister(token)

    def _cancel(self, waiting: Waiting) -> None:
        with self._lock:
            if waiting not in self._line:
                return
            self._line.remove(waiting)
        waiting.done(error=CancelledError(f"{self._what} was cancelled"))
