"""`Store`, the base of staging areas and barriers: pending requests, retried after each change.

Semantics: tensorflow/core/kernels/{stage_op,map_stage_op,barrier_ops}.cc. Pending puts and takes
are retried whenever the store changes, so no thread blocks.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from graphmill.errors import CancelledError
from graphmill.spi.process import fork_safe_lock, track_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation

    Done = Callable[..., None]
    Attempt = Callable[[], "tuple[Any] | None"]


class Request:
    """An operation that is retried until it succeeds.

    Attributes:
        attempt: returns the result in a tuple, or None to be retried.

    Threads: `has_ended` is set under the lock of the store.
    """

    __slots__ = ("attempt", "cancellation", "done", "has_ended", "outcome", "token")

    def __init__(self, attempt: Attempt, done: Done) -> None:
        self.attempt, self.done = attempt, done
        self.has_ended = False
        self.outcome: tuple[Any, BaseException | None] = (None, None)
        self.cancellation: Cancellation | None = None
        self.token: int | None = None

    def finish(self) -> None:
        """Call `done`; outside of the lock."""
        if self.cancellation is not None:
            self.cancellation.deregister(self.token)
        result, error = self.outcome
        if error is not None:
            self.done(error=error)
        else:
            self.done(result)


class Store:
    """A container with pending put and take requests.

    Threads: `lock` guards everything; `done` is called outside of it.
    """

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self._puts: deque[Request] = deque()
        self._takes: deque[Request] = deque()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Drop the pending requests, whose steps do not exist in the child."""
        self._puts.clear()
        self._takes.clear()

    def submit(
        self,
        attempt: Attempt,
        done: Done,
        cancellation: Cancellation | None = None,
        *,
        is_take: bool = False,
    ) -> None:
        """Try a request now, and again after each change until it succeeds.

        `attempt` runs under the lock; an exception that it raises ends the request.
        """
        request = Request(attempt, done)
        with self.lock:
            (self._takes if is_take else self._puts).append(request)
            ended = self._retry()
        for one in ended:
            one.finish()
        if cancellation is not None and not request.has_ended:
            self._watch(request, cancellation)

    def _watch(self, request: Request, cancellation: Cancellation) -> None:
        token = cancellation.register(lambda: self.cancel(request))
        if token is None:
            self.cancel(request)
            return
        with self.lock:
            if not request.has_ended:
                request.cancellation, request.token = cancellation, token
                return
        cancellation.deregister(token)

    def cancel(self, request: Request) -> None:
        """End a pending request with CancelledError."""
        with self.lock:
            if request.has_ended:
                return
            self._end(request, None, CancelledError("the operation was cancelled while it waited"))
            pending = self._puts if request in self._puts else self._takes
            pending.remove(request)
        request.finish()

    def cancel_puts(self) -> list[Request]:
        """End all pending puts, under the lock; the caller finishes them outside of it."""
        ended = list(self._puts)
        self._puts.clear()
        for request in ended:
            self._end(request, None, CancelledError("the operation was cancelled"))
        return ended

    def changed(self) -> None:
        """Retry pending requests after a change that no request made."""
        with self.lock:
            ended = self._retry()
        for one in ended:
            one.finish()

    def _retry(self) -> list[Request]:
        ended: list[Request] = []
        while self._retry_each(self._puts, ended) + self._retry_each(self._takes, ended):
            pass
        return ended

    def _retry_each(self, pending: deque[Request], ended: list[Request]) -> int:
        """Try each pending request of a list once; return the number that have ended.

        A blocked request does not hold up later ones, which may need other keys.
        """
        before = len(ended)
        for request in list(pending):
            try:
                result = request.attempt()
            except BaseException as error:  # noqa: BLE001 - passed to the caller
                self._end(request, None, error)
            else:
                if result is None:
                    continue
                self._end(request, result[0], None)
            pending.remove(request)
            ended.append(request)
        return len(ended) - before

    @staticmethod
    def _end(request: Request, result: Any, error: BaseException | None) -> None:
        request.has_ended = True
        request.outcome = (result, error)
