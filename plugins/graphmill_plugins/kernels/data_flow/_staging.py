"""`Staging` areas and `Barrier`s: stores of elements by position or key.

Semantics: tensorflow/core/kernels/{stage_op,map_stage_op,barrier_ops}.cc. Requests wait in two
lines and are tried again whenever something changes, so that no thread waits.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from graphmill.errors import CancelledError
from graphmill.spi.process import fork_safe_lock, track_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import CancellationManager

    Done = Callable[..., None]
    Try = Callable[[], "tuple[Any] | None"]


class Request:
    """An operation that is tried until it succeeds: `attempt` returns a tuple, or None.

    Threads: `has_ended` is set under the lock of the store.
    """

    __slots__ = ("attempt", "cancellation", "done", "has_ended", "outcome", "token")

    def __init__(self, attempt: Try, done: Done) -> None:
        self.attempt, self.done = attempt, done
        self.has_ended = False
        self.outcome: tuple[Any, BaseException | None] = (None, None)
        self.cancellation: CancellationManager | None = None
        self.token: int | None = None

    def finish(self) -> None:
        """Notify the caller; outside of the lock."""
        if self.cancellation is not None:
            self.cancellation.deregister(self.token)
        result, error = self.outcome
        if error is not None:
            self.done(error=error)
        else:
            self.done(result)


class Store:
    """The object that put and take requests work on.

    Threads: `lock` guards everything; `done` is called outside of it.
    """

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self._puts: deque[Request] = deque()
        self._takes: deque[Request] = deque()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the waiting steps, which do not exist in this process."""
        self._puts.clear()
        self._takes.clear()

    def submit(
        self,
        attempt: Try,
        done: Done,
        cancellation: CancellationManager | None = None,
        *,
        is_take: bool = False,
    ) -> None:
        """Try a request now, and again after each change until it succeeds.

        `attempt` runs under the lock; what it raises is the request's error.
        """
        request = Request(attempt, done)
        with self.lock:
            (self._takes if is_take else self._puts).append(request)
            ended = self._settle()
        for one in ended:
            one.finish()
        if cancellation is not None and not request.has_ended:
            self._watch(request, cancellation)

    def _watch(self, request: Request, cancellation: CancellationManager) -> None:
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
        """End a request that waits, with CancelledError."""
        with self.lock:
            if request.has_ended:
                return
            self._end(request, None, CancelledError("the operation was cancelled while it waited"))
            line = self._puts if request in self._puts else self._takes
            line.remove(request)
        request.finish()

    def cancel_puts(self) -> list[Request]:
        """End all puts that wait; under the lock. The caller finishes them outside of it."""
        ended = list(self._puts)
        self._puts.clear()
        for request in ended:
            self._end(request, None, CancelledError("the operation was cancelled"))
        return ended

    def changed(self) -> None:
        """Try waiting requests again after a change outside of requests."""
        with self.lock:
            ended = self._settle()
        for one in ended:
            one.finish()

    def _settle(self) -> list[Request]:
        ended: list[Request] = []
        while self._settle_line(self._puts, ended) + self._settle_line(self._takes, ended):
            pass
        return ended

    def _settle_line(self, line: deque[Request], ended: list[Request]) -> int:
        """Try each of a line once; return how many have ended.

        Others behind one that waits are tried too: they may want other keys.
        """
        before = len(ended)
        for request in list(line):
            try:
                result = request.attempt()
            except BaseException as error:  # noqa: BLE001 - goes to the one who asked
                self._end(request, None, error)
            else:
                if result is None:
                    continue
                self._end(request, result[0], None)
            line.remove(request)
            ended.append(request)
        return len(ended) - before

    @staticmethod
    def _end(request: Request, result: Any, error: BaseException | None) -> None:
        request.has_ended = True
        request.outcome = (result, error)
