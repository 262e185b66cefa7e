"""`StepRunner`: the event loop of one step, run by the thread that drives the step.

Kernels that run in other threads (asynchronous ones, expensive ones in a pool) post an action when
they are done; the driving thread runs it. So executors, nested function calls and partitions of a
step never run at the same time, and their state needs no locks.
"""

from __future__ import annotations

from contextlib import contextmanager
from queue import Empty, SimpleQueue
from threading import get_ident, main_thread
from time import monotonic
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from graphmill.runtime.process.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.runtime.threads.thread_pool import ThreadPool

_T = TypeVar("_T")

_SIGNAL_SECONDS: Final = 0.5
"""Seconds after which a waiting main thread checks for signals."""


class Stoppable(Protocol):
    """A run of an executor, or what cancels one."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it has been cancelled."""
        ...


RUNNING: Final[dict[int, Stoppable]] = {}
"""The step whose kernels each thread runs, by the identity of the thread; see `current_step`.

A dict, because steps are short: setting a `threading.local` or `ContextVar` takes three times as
long.
"""


@contextmanager
def running(step: Stoppable) -> Iterator[None]:
    """Declare that the kernels that the calling thread runs in a `with` block belong to a step."""
    thread = get_ident()
    outer = RUNNING.get(thread)
    RUNNING[thread] = step
    try:
        yield
    finally:
        leave(thread, outer)


def leave(thread: int, outer: Stoppable | None) -> None:
    """Declare that a thread runs the kernels of an outer step again, or of none."""
    if outer is None:
        del RUNNING[thread]
    else:
        RUNNING[thread] = outer


class StepRunner:
    """Runs posted actions in the thread that calls `run_until`.

    Threads: `post` may be called from any; everything else from the driving thread.

    Attributes:
        pool: the thread pool for expensive kernels; None to run them in the driving thread.
        owner: identity of the driving thread.
        watches: callables that run each time before the driving thread waits; they may post.
        num_computing: the number of kernels that compute in the pool; executors count them, in the
            driving thread.
    """

    __slots__ = ("_posted", "num_computing", "owner", "pool", "watches")

    def __init__(self, pool: ThreadPool | None = None) -> None:
        self.pool = pool
        self.owner = get_ident()
        self.watches: list[Callable[[], None]] = []
        self.num_computing = 0
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def post(self, action: Callable[[], None]) -> None:
        """Post an action for the driving thread."""
        self._posted.put(action)

    @property
    def has_posted(self) -> bool:
        """Whether an action was posted and has not been run."""
        return not self._posted.empty()

    def run_posted(self) -> None:
        """Run the posted actions without waiting."""
        while not self._posted.empty():
            self._posted.get()()

    def run_next(self, timeout: float = 0.0) -> bool:
        """Run one posted action, and wait for it if necessary; return whether there was one.

        An interrupt (SIGINT) during the wait loses no action, so that the step can continue.

        Args:
            timeout: the maximum number of seconds to wait.
        """
        from graphmill.runtime.process.defer_sigint import DeferredInterrupt  # for debuggers only

        self.owner = get_ident()
        deadline = monotonic() + timeout
        action = None
        while action is None:
            left = max(deadline - monotonic(), 0.0)
            try:
                with DeferredInterrupt():
                    action = self._get(min(left, _SIGNAL_SECONDS))
            except KeyboardInterrupt:
                if action is not None:
                    self._posted.put(action)
                raise
            if action is None and not left:
                return False
        action()
        return True

    def _get(self, timeout: float) -> Callable[[], None] | None:
        try:
            return self._posted.get(timeout=timeout) if timeout else self._posted.get_nowait()
        except Empty:
            return None

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Run posted actions, and wait for more, until `is_done` returns true after one."""
        self.owner = get_ident()
        while not is_done():
            if self._posted.empty():
                for watch in tuple(self.watches):
                    watch()
                if self.owner == main_thread().ident:
                    get_in_main_thread(self._posted)()
                    continue
            self._posted.get()()


def get_in_main_thread(queue: SimpleQueue[_T]) -> _T:
    """Return the next item of a queue; in the main thread, a signal can always end the wait.

    CPython runs handlers of signals between instructions. A signal that arrives after the last one
    and before the thread blocks would be noticed only when something else wakes the thread.
    """
    while True:
        try:
            return queue.get(timeout=_SIGNAL_SECONDS)
        except Empty:
            continue


SHUTDOWN.idle_code.update((StepRunner.run_until.__code__, StepRunner.run_next.__code__))
