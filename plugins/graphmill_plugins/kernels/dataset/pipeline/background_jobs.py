"""Compute elements ahead of time in background threads.

No thread waits for a free thread of the pool: a consumer runs a job itself if it has not started,
and waits only for jobs that are running. So a pool of one thread cannot deadlock on any pipeline,
and a session without a pool computes the elements one by one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import CancelledError, FailedPreconditionError
from graphmill.spi.executors import running
from graphmill.spi.process import fork_safe_lock, track_forks
from graphmill_plugins.kernels.dataset.pipeline.dataset import ElementIterator

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

    Done = Callable[[Element | None, BaseException | None], None]


INTERRUPTED_BY_FORK: Final = (
    "another thread was advancing the iterator when the process was forked, so the child cannot "
    "continue it; run the iterator's initializer again in the child"
)


class Job:
    """Work that runs once, in a thread of the pool or in the thread that needs the result.

    Threads: `_lock` is held by the thread that runs it.
    """

    __slots__ = ("_error", "_is_done", "_lock", "_result", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._lock = fork_safe_lock()
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the work unless it has run; never raises."""
        with self._lock:
            if self._is_done:
                return
            work = self._work
            try:
                self._result = work() if work is not None else None
            except BaseException as error:  # noqa: BLE001 - raised by `result`
                self._error = error
            self._is_done, self._work = True, None

    def result(self) -> Any:
        """Return the result of the work, running it now if necessary.

        Raises:
            BaseException: whatever the work raised.
        """
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class Prefetching(ElementIterator):
    """Prefetches elements into a buffer.

    Semantics: tensorflow/core/kernels/data/prefetch_dataset_op.cc, without its autotuning: a
    buffer size of -1 is a fixed one.

    Threads: `_source_lock` is held while the input is advanced; `_lock` guards the buffer and the
    waiters. Lock order: `_source_lock`, then `_lock`. Callbacks run outside of `_lock`.

    Attributes:
        num_taken: the number of elements and errors that consumers have taken.
    """

    def __init__(self, source: Elements, size: int, scope: Scope) -> None:
        self._source = source
        self._size = size
        self._scope = scope
        self._source_lock = fork_safe_lock()
        self._lock = fork_safe_lock()
        self._buffer: deque[tuple[Element | None, BaseException | None]] = deque()
        self._waiting: deque[Waiter] = deque()
        self._is_filling = False
        self._is_at_end = False
        self._is_advancing = self._was_interrupted = False
        self.num_taken = 0
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Drop the waiters and the background thread, which do not exist in the child.

        An input that a thread was advancing during the fork cannot be continued.
        """
        self._waiting.clear()
        self._was_interrupted = self._was_interrupted or self._is_advancing
        self._is_filling = self._is_advancing = False

    def __next__(self) -> Element:
        result = self._take_buffered()
        if result is None:
            with self._source_lock:
                result = self._take_buffered()
                if result is None:
                    result = self._advance()
                    with self._lock:
                        self.num_taken += 1
        self._schedule_fill()
        element, error = result
        if error is not None:
            raise error
        if element is None:
            raise StopIteration
        return element

    def next_async(self, done: Done, step: Cancellation) -> None:
        """Call `done` with the next element (None at the end) or an error, now or later.

        No thread blocks meanwhile. If `step` is cancelled, `done` gets a CancelledError.
        """
        waiter = Waiter(done)
        with self._lock:
            result = self._pop()
            if result is None:
                self._waiting.append(waiter)
        self._schedule_fill()
        if result is not None:
            done(*result)
            return
        waiter.watch(step, lambda: self._give_up(waiter))

    def _give_up(self, waiter: Waiter) -> None:
        with self._lock:
            if waiter not in self._waiting:
                return
            self._waiting.remove(waiter)
        waiter(None, CancelledError("Iterator was cancelled while it waited for an element"))

    def _take_buffered(self) -> tuple[Element | None, BaseException | None] | None:
        with self._lock:
            return self._pop()

    def _pop(self) -> tuple[Element | None, BaseException | None] | None:
        """Take a buffered element; `_lock` must be held."""
        if not self._buffer:
            return None
        self.num_taken += 1
        return self._buffer.popleft()

    def _advance(self) -> tuple[Element | None, BaseException | None]:
        """Take the next element from the input; `_source_lock` must be held."""
        if self._is_at_end:
            return None, None
        if self._scope.cancellation.is_cancelled:
            return None, CancelledError("the iterator was deleted, or its session closed")
        if self._was_interrupted:
            return None, FailedPreconditionError(INTERRUPTED_BY_FORK)
        self._is_advancing = True
        try:
            with running(self._scope.cancellation):
                element = next(self._source, None)
        except BaseException as error:  # noqa: BLE001 - raised by the consumer
            return None, error
        finally:
            self._is_advancing = False
        self._is_at_end = element is None
        return element, None

    def _schedule_fill(self) -> None:
        """Schedule filling the buffer, unless it is full or being filled."""
        pool = self._scope.pool
        with self._lock:
            if self._is_filling or pool is None or not self._needs_elements():
                return
            self._is_filling = True
        pool.schedule(self._fill)

    def _needs_elements(self) -> bool:
        if self._scope.cancellation.is_cancelled and not self._waiting:
            return False
        if self._is_at_end and not self._waiting:
            return False
        return bool(self._waiting) or len(self._buffer) < self._size

    def _fill(self) -> None:
        """Take elements until the buffer is full; runs in a thread of the pool."""
        np.seterr(all="ignore")
        while True:
            with self._source_lock:
                with self._lock:
                    if not self._needs_elements():
                        self._is_filling = False
                        return
                result = self._advance()
                with self._lock:
                    waiter = self._waiting.popleft() if self._waiting else None
                    self.num_taken += waiter is not None
                    if waiter is None and result != (None, None):
                        self._buffer.append(result)
            if waiter is not None:
                waiter(*result)


class Waiter:
    """A callback that waits for an element, notified once: with the element or with an error.

    Threads: `_lock` lets the first notification win; `done` is called outside of it.
    """

    __slots__ = ("_done", "_lock", "_step", "_token", "_was_notified")

    def __init__(self, done: Done) -> None:
        self._done = done
        self._lock = fork_safe_lock()
        self._was_notified = False
        self._step: Cancellation | None = None
        self._token: int | None = None

    def watch(self, step: Cancellation, give_up: Callable[[], None]) -> None:
        """Call `give_up` if the step is cancelled before the waiter is notified."""
        token = step.register(give_up)
        if token is None:
            give_up()
            return
        with self._lock:
            if not self._was_notified:
                self._step, self._token = step, token
                return
        step.deregister(token)

    def __call__(self, element: Element | None, error: BaseException | None) -> None:
        """Notify the waiter, unless it has been notified."""
        with self._lock:
            if self._was_notified:
                return
            self._was_notified = True
            step, self._step = self._step, None
        if step is not None:
            step.deregister(self._token)
        self._done(element, error)
