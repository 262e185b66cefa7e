"""`ThreadPool`: runs expensive kernels in parallel (clauses S2, E5).

One queue serves all threads. Work stealing between queues pays off in TensorFlow because every node
goes through the pool. Here only expensive kernels (which release the GIL) do, at most a few hundred
in a step, so the queue is never contended.
"""

from __future__ import annotations

import os
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable


_Tasks: TypeAlias = "SimpleQueue[Callable[[], None] | None]"


class ThreadPool:
    """A fixed number of threads, started on demand; idle threads block without spinning.

    When the interpreter shuts down, the threads end, and the caller of `schedule` runs the task.
    The child of a fork starts new threads; tasks of steps in progress are dropped there. A pool
    that is garbage collected ends its threads after the queued tasks.

    Threads: `_lock` guards the starting and stopping of threads. Tasks must not raise.

    Args:
        num_threads: the number of threads; 0 for the number of processors.
        name: prefix of the names of the threads.
    """

    def __init__(self, num_threads: int = 0, name: str = "graphmill") -> None:
        self.num_threads = num_threads or os.cpu_count() or 1
        self.name = name
        self._lock = fork.fork_safe_lock()
        self._is_closed = False
        self._start_empty()
        fork.track_forks(self)

    def schedule(self, task: Callable[[], None]) -> None:
        """Queue a task for a thread of the pool; it has the memory budget of the caller."""
        if len(self._threads) < self.num_threads:
            self._start_thread()
        from graphmill.memory_budget import inheriting  # few first steps need the pool

        self._tasks.put(inheriting(task))
        if SHUTDOWN.has_begun:
            _run_queued(self._tasks)

    def close(self) -> None:
        """End the threads once all tasks are done; wait for them."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads)
        self._finalizer()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def after_fork_in_child(self) -> None:
        """Forget the threads, which are not in this process, and their tasks."""
        self._finalizer.detach()
        self._start_empty()

    @property
    def num_started(self) -> int:
        """The number of threads that have been started."""
        return len(self._threads)

    def _start_empty(self) -> None:
        self._tasks: _Tasks = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._finalizer = weakref.finalize(self, _end, self._tasks, self._threads)
        self._finalizer.atexit = False

    def _start_thread(self) -> None:
        fork.watch_forks()
        with self._lock:
            if SHUTDOWN.has_begun or self._is_closed or len(self._threads) >= self.num_threads:
                return
            name = f"{self.name}-{len(self._threads)}"
            # A thread that held the pool would keep it alive.
            thread = threading.Thread(target=_work, args=(self._tasks,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()


def _work(tasks: _Tasks) -> None:
    # NumPy's error state belongs to the thread; in a step overflow and NaN are values.
    np.seterr(all="ignore")
    while (task := tasks.get()) is not None:
        task()
        del task
        if SHUTDOWN.has_begun:
            _run_queued(tasks)
            return


def _run_queued(tasks: _Tasks) -> None:
    """Run the tasks in the queue, in this thread."""
    while True:
        try:
            task = tasks.get_nowait()
        except Empty:
            return
        if task is not None:
            task()


def _end(tasks: _Tasks, threads: list[threading.Thread]) -> None:
    """End the threads of a pool once the tasks in the queue are done."""
    for _ in threads:
        tasks.put(None)
    threads.clear()


SHUTDOWN.busy_code.add(_work.__code__)
SHUTDOWN.idle_code.add(_work.__code__)


class SharedThreadPools:
    """The pools that the sessions of a host share, by name; "" is the default pool.

    Threads: `_lock` guards the table. Pools live as long as the host; idle threads only wait.
    """

    def __init__(self) -> None:
        self._lock = fork.fork_safe_lock()
        self._pools: dict[str, ThreadPool] = {}

    def get(self, name: str, num_threads: int) -> ThreadPool:
        """Return the pool of a name; the first call determines its number of threads.

        Raises:
            InvalidArgumentError: the pool exists with another number of threads.
        """
        with self._lock:
            pool = self._pools.get(name)
            if pool is None:
                pool = self._pools[name] = ThreadPool(num_threads, name or "graphmill")
        if name and num_threads and pool.num_threads != num_threads:
            raise InvalidArgumentError(
                f"thread pool {name!r} has {pool.num_threads} threads, but a session requests "
                f"{num_threads}; use the same number in all sessions, or another name"
            )
        return pool
