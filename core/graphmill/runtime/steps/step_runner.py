"""`StepRunner`: the event loop of one step, run by the thread that drives the step.

Kernels that run in other threads (asynchronous ones, expensive ones in a pool) post an action when
they are done; the driving thread runs it. So executors, nested function calls and partitions of a
step never run at the same time, and their state needs no locks.
"""

from __future__ import annotations

from queue import SimpleQueue
from threading import get_ident
from typing import TYPE_CHECKING

from graphmill.runtime.process.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.threads.thread_pool import ThreadPool


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
        """Run the actions that have been posted; never wait."""
        while not self._posted.empty():
            self._posted.get()()

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Run posted actions, and wait for more, until `is_done` returns true after one."""
        self.owner = get_ident()
        while not is_done():
            if self.watches and self._posted.empty():
                for watch in tuple(self.watches):
                    watch()
            self._posted.get()()


SHUTDOWN.idle_code.add(StepRunner.run_until.__code__)
