"""Compute elements ahead of time in background threads.

Nothing here waits for a thread of a pool to become free: whoever needs a result that nobody has
begun to make makes it himself, and only waits for work that is being done. So a pool of one thread
is enough for any pipeline, and a session without threads runs it too, one element after the other.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import CancelledError, FailedPreconditionError
from graphmill.spi.process import fork_safe_lock, track_forks
from graphmill_plugins.kernels.dataset.pipeline.dataset import ElementIterator

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import CancellationManager
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

    Done = Callable[[Element | None, BaseException | None], None]


TORN_BY_FORK: Final = (
    "another thread was advancing the iterator when the process was forked, which the child cannot "
    "continue; run the iterator's initializer again in the child"
)


class Job:
    """A piece of work that is done once, by a thread of a pool or by the one that needs it.

    Threads: `_lock` is held by the thread that does it.
    """

    __slots__ = ("_error", "_is_done", "_lock", "_result", "_work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work: Callable[[], Any] | None = work
        self._lock = fork_safe_lock()
        self._is_done = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work unless that has happened; never raises."""
        with self._lock:
            if self._is_done:
                return
            work = self._work
            try:
                self._result = work() if work is not None else None
            except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
                self._error = error
            self._is_done, self._work = True, None

    def result(self) -> Any:
        """Return the result of the work, doing it now if necessary.

        Raises:
            BaseException: whatever the work raised.
        """
        self.run()
        if self._error is not None:
            raise self._error
        return self._result


class Prefetching(ElementIterator):
    """Takes elements ahead of time into a buffer.

    Semantics: tensorflow/core/kernels/data/prefetch_dataset_op.cc, without its autotuning: a
    buffer size of -1 is a fixed one.

    Threads: `_making` is held by the one that takes from the input; `_lock` guards the buffer and
    those who wait. Who needs both takes `_making` first. Callbacks are called outside of `_lock`.
    """

    def __init__(self, source: Elements, size: int, scope: Scope) -> None:
        self._source = source
        self._size = size
        self._scope = scope
        self._making = fork_safe_lock()
        self._lock = fork_safe_lock()
        self._buffer: deque[tuple[Element | None, BaseException | None]] = deque()
        self._waiting: deque[Waiter] = deque()
        self._is_filling = False
        self._is_at_end = False
        self._is_making = self._is_torn = False
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the waiting and filling threads, which are not in this process.

        If one was advancing the input, that cannot be continued.
        """
        self._waiting.clear()
        self._is_torn = self._is_torn or self._is_making
        self._is_filling = self._is_making = False

    def __next__(self) -> Element:
        taken = self._taken()
        if taken is None:
            with self._making:
                taken = self._taken() or self._make()
        self._fill_ahead()
        element, error = taken
        if error is not None:
            raise error
        if element is None:
            raise StopIteration
        return element

    def next_async(self, done: Done, step: CancellationManager) -> None:
        """Call `done` with the next element (None at the end) or an error, now or later.

        No thread waits meanwhile. With `step` cancelled, `done` gets the error.
        """
        waiter = Waiter(done)
        with self._lock:
            taken = self._buffer.popleft() if self._buffer else None
            if taken is None:
                self._waiting.append(waiter)
        self._fill_ahead()
        if taken is not None:
            done(*taken)
            return
        waiter.watch(step, lambda: self._give_up(waiter))

    def _give_up(self, waiter: Waiter) -> None:
        with self._lock:
            if waiter not in self._waiting:
                return
            self._waiting.remove(waiter)
        waiter(None, CancelledError("Iterator was cancelled while it waited for an element"))

    def _taken(self) -> tuple[Element | None, BaseException | None] | None:
        with self._lock:
            return self._buffer.popleft() if self._buffer else None

    def _make(self) -> tuple[Element | None, BaseException | None]:
        """Take the next element from the input; with `_making` held."""
        if self._is_at_end:
            return None, None
        if self._scope.cancellation.is_cancelled:
            return None, CancelledError("the iterator was deleted, or its session closed")
        if self._is_torn:
            return None, FailedPreconditionError(TORN_BY_FORK)
        self._is_making = True
        try:
            element = next(self._source, None)
        except BaseException as error:  # noqa: BLE001 - raised where the element is taken
            return None, error
        finally:
            self._is_making = False
        self._is_at_end = element is None
        return element, None

    def _fill_ahead(self) -> None:
        """Have a thread fill the buffer, unless one does or nothing is missing."""
        pool = self._scope.pool
        with self._lock:
            if self._is_filling or pool is None or not self._is_room():
                return
            self._is_filling = True
        pool.schedule(self._fill)

    def _is_room(self) -> bool:
        if self._scope.cancellation.is_cancelled and not self._waiting:
            return False
        if self._is_at_end and not self._waiting:
            return False
        return bool(self._waiting) or len(self._buffer) < self._size

    def _fill(self) -> None:
        """Make elements until the buffer is full: the task of a thread of the pool."""
        np.seterr(all="ignore")
        while True:
            with self._making:
                with self._lock:
                    if not self._is_room():
                        self._is_filling = False
                        return
                made = self._make()
                with self._lock:
                    waiter = self._waiting.popleft() if self._waiting else None
                    if waiter is None and made != (None, None):
                        self._buffer.append(made)
            if waiter is not None:
                waiter(*made)


class Waiter:
    """A waiter for an element, notified once: with it, with an error, or to give up.

    Threads: `_lock` guards who notifies first; `done` is called outside of it.
    """

    __slots__ = ("_done", "_lock", "_step", "_token", "_was_told")

    def __init__(self, done: Done) -> None:
        self._done = done
        self._lock = fork_safe_lock()
        self._was_told = False
        self._step: CancellationManager | None = None
        self._token: int | None = None

    def watch(self, step: CancellationManager, give_up: Callable[[], None]) -> None:
        """Have `give_up` called if the step is cancelled before the waiter is notified."""
        token = step.register(give_up)
        if token is None:
            give_up()
            return
        with self._lock:
            if not self._was_told:
                self._step, self._token = step, token
                return
        step.deregister(token)

    def __call__(self, element: Element | None, error: BaseException | None) -> None:
        """Notify the waiter, unless that has happened."""
        with self._lock:
            if self._was_told:
                return
            self._was_told = True
            step, self._step = self._step, None
        if step is not None:
            step.deregister(self._token)
        self._done(element, error)
