"""`DriverThreads`: threads that drive asynchronous steps, one for each step in flight.

A thread that drives a step may have to wait for other steps, in this process or another. So no
fixed number of threads suffices: a thread is started whenever none is idle, and idle threads are
reused.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_IDLE: Final = 16
"""Maximum number of idle threads that wait for later steps."""


class DriverThreads:
    """Runs each task in a thread that no other running task uses.

    Threads: `_lock` guards the number of idle threads. Tasks must not raise.

    Args:
        name: prefix of the names of the threads.
    """

    def __init__(self, name: str = "graphmill-driver") -> None:
        self.name = name
        self._lock = fork.fork_safe_lock()
        self._num_idle = 0
        self._num_started = 0
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        fork.track_forks(self)

    @property
    def num_started(self) -> int:
        """The number of threads that have been started."""
        return self._num_started

    def submit(self, task: Callable[[], None]) -> None:
        """Run `task` immediately, in an idle thread or a new one."""
        with self._lock:
            has_idle = self._num_idle > 0
            if has_idle:
                self._num_idle -= 1  # reserve an idle thread for this task
            else:
                self._num_started += 1
        self._tasks.put(task)
        if not has_idle:
            fork.watch_forks()
            name = f"{self.name}-{self._num_started}"
            threading.Thread(target=self._work, name=name, daemon=True).start()

    def close(self) -> None:
        """End the idle threads; busy ones end after their task."""
        with self._lock:
            num_idle, self._num_idle = self._num_idle, -(1 << 30)
        for _ in range(num_idle):
            self._tasks.put(None)

    def after_fork_in_child(self) -> None:
        """Forget the threads, which are not in this process, and their tasks."""
        self._tasks = SimpleQueue()
        self._num_idle = 0

    def _work(self) -> None:
        # NumPy's error state belongs to the thread; in a step overflow and NaN are values.
        np.seterr(all="ignore")
        while (task := self._tasks.get()) is not None:
            task()
            del task
            if not self._rest():
                return

    def _rest(self) -> bool:
        """Count the calling thread as idle; return whether it should wait for another task."""
        with self._lock:
            if SHUTDOWN.has_begun or not 0 <= self._num_idle < MAX_IDLE:
                return False
            self._num_idle += 1
            return True


SHUTDOWN.busy_code.add(DriverThreads._work.__code__)  # noqa: SLF001 - its own module
SHUTDOWN.idle_code.add(DriverThreads._work.__code__)  # noqa: SLF001
