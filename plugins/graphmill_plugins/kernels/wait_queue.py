"""A queue of waiting callers with callbacks, removed when their step is cancelled."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from graphmill.errors import CancelledError
from graphmill.spi.process import track_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation


class Waiter:
    """A waiting caller.

    Attributes:
        done: called once, outside of all locks; with `error` if cancelled.
        request: the object that it waits for.
    """

    __slots__ = ("_cancellation", "_token", "done", "request")

    def __init__(self, done: Callable[..., None], request: Any = None) -> None:
        self.done = done
        self.request = request
        self._cancellation: Cancellation | None = None
        self._token: int | None = None

    def note_token(self, cancellation: Cancellation, token: int) -> None:
        """Store the cancellation token, which is deregistered when the caller is served."""
        self._cancellation, self._token = cancellation, token

    def leave(self) -> None:
        """Deregister from the step's cancellation; called when the caller is served."""
        if self._cancellation is not None:
            self._cancellation.deregister(self._token)


class WaitQueue:
    """Waiting callers in order of arrival.

    Threads: `lock` guards the object that they wait for; `first`, `served` and `join` need it.
    """

    def __init__(self, lock: Any, what: str) -> None:
        self._lock = lock
        self._what = what
        self._waiters: deque[Waiter] = deque()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the waiters, whose steps do not exist in this process."""
        self._waiters.clear()

    @property
    def first(self) -> Waiter | None:
        """The first caller in the queue."""
        return self._waiters[0] if self._waiters else None

    def served(self) -> Waiter:
        """Remove and return the first caller."""
        return self._waiters.popleft()

    def join(self, waiting: Waiter) -> None:
        """Add a caller at the end; the lock must be held."""
        self._waiters.append(waiting)

    def watch(self, waiting: Waiter, cancellation: Cancellation | None) -> None:
        """Remove a caller when its step is cancelled; the lock must not be held."""
        if cancellation is None:
            return
        token = cancellation.register(lambda: self._cancel(waiting))
        if token is None:
            self._cancel(waiting)
            return
        with self._lock:
            if waiting in self._waiters:
                waiting.note_token(cancellation, token)
                return
        cancellation.deregister(token)

    def _cancel(self, waiting: Waiter) -> None:
        with self._lock:
            if waiting not in self._waiters:
                return
            self._waiters.remove(waiting)
        waiting.done(error=CancelledError(f"{self._what} was cancelled"))
