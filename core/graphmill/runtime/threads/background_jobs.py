"""Run jobs that speed up later steps in a background thread.

One thread at a time serves all sessions of a host. It ends when the queue is empty, so that an idle
program has no such thread. The shutdown of the interpreter waits for the job in progress and drops
queued jobs; closing a session drops its queued jobs.

A thread that ends during the shutdown may abort the process: C++ libraries that it called, JAX
among them, destroy thread-local state when a thread ends and acquire the GIL to do so, which is no
longer possible then. So a thread that works at that time blocks forever instead of ending.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final

from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import SHUTDOWN, watch_for_shutdown
from graphmill.runtime.process.switch_interval import LOW_SWITCH_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_WAITING: Final = 256


class BackgroundWork:
    """A first-in, first-out queue of jobs and the thread that runs them.

    The child of a fork starts with an empty queue and no thread; submit jobs again there.

    Threads: `_lock` guards the queue, the thread and its job. If a job raises,
    `threading.excepthook` reports the exception, and the next job runs.

    Attributes:
        num_done, num_dropped: the numbers of jobs that were done, and that were dropped because too
            many waited or their owner was closed.
    """

    def __init__(self, name: str = "graphmill-background") -> None:
        self._name = name
        self._lock = fork.fork_safe_lock()
        self._job_done = threading.Condition(self._lock)
        self._jobs: deque[tuple[object, Callable[[], None]]] = deque()
        self._owner: object = None  # of the running job
        self._thread: threading.Thread | None = None
        self._is_idle = threading.Event()
        self._is_idle.set()
        self._is_ending = False
        self.num_done = 0
        self.num_dropped = 0
        fork.track_forks(self)

    @property
    def is_idle(self) -> bool:
        """Whether the queue is empty and no job runs."""
        return self._is_idle.is_set()

    def submit(self, owner: object, job: Callable[[], None]) -> bool:
        """Queue a job for the thread; return whether it was accepted.

        The job is not accepted if too many jobs wait, or if no thread can be started: because the
        system has no more threads, or because the interpreter shuts down.

        Args:
            owner: the object that needs the job; see `forget`.
            job: the function to call; it must itself check whether its result is still needed.
        """
        with self._lock:
            if self._is_ending or len(self._jobs) >= _MAX_WAITING:
                self.num_dropped += 1
                return False
            self._jobs.append((owner, job))
            return self._is_served() or self._start()

    def after_fork_in_child(self) -> None:
        """Forget the thread, which is not in this process, its job and the queue."""
        self._job_done = threading.Condition(self._lock)
        self._jobs.clear()
        self._owner = self._thread = None
        self._is_idle = threading.Event()
        self._is_idle.set()

    def _is_served(self) -> bool:
        """Return whether a thread serves the queue."""
        return self._thread is not None and self._thread.is_alive()

    def _start(self) -> bool:
        """Start a thread for the queue; return whether it was possible; the lock must be held."""
        thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
        try:
            if SHUTDOWN.has_begun or not watch_for_shutdown():
                raise RuntimeError("the interpreter is shutting down")
            fork.watch_forks()
            thread.start()
        except RuntimeError:
            self.num_dropped += len(self._jobs)
            self._jobs.clear()
            return False
        self._is_idle.clear()
        self._thread = thread
        _ALL.add(self)
        return True

    def end(self) -> None:
        """Drop queued jobs, wait for the running one, and accept no more."""
        with self._lock:
            self._is_ending = True
            is_served = self._is_served()
        if is_served:
            self._is_idle.wait()

    def forget(self, owner: object, *, wait: bool = True) -> None:
        """Drop the queued jobs of an owner.

        Args:
            owner: the owner.
            wait: also wait for a running job of the owner, which the caller must do before it frees
                objects that the job uses.
        """
        with self._lock:
            remaining = [entry for entry in self._jobs if entry[0] is not owner]
            self.num_dropped += len(self._jobs) - len(remaining)
            self._jobs = deque(remaining)
            if wait and threading.current_thread() is not self._thread:
                self._job_done.wait_for(lambda: self._owner is not owner or not self._is_served())

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until the queue is empty and no job runs; return False after `timeout` seconds."""
        return self._is_idle.wait(timeout)

    def _serve(self) -> None:
        with LOW_SWITCH_INTERVAL:
            self._work()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._is_ending:
                    break
                if not self._jobs:
                    self._thread = None
                    self._is_idle.set()
                    return
                self._owner, job = self._jobs.popleft()
            try:
                job()
            except BaseException:  # noqa: BLE001 - reported like in any thread; later jobs run
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self._thread)))
            del job
            with self._job_done:
                self._owner = None
                self.num_done += 1
                self._job_done.notify_all()
        self._stay()

    def _stay(self) -> None:
        """Drop queued jobs, become idle, and block forever."""
        never = threading.Lock()
        never.acquire()
        with self._lock:
            self.num_dropped += len(self._jobs)
            self._jobs.clear()
        self._is_idle.set()
        never.acquire()


_ALL: weakref.WeakSet[BackgroundWork] = weakref.WeakSet()


def _end_all() -> None:
    for work in list(_ALL):
        work.end()


SHUTDOWN.register(_end_all)
SHUTDOWN.idle_code.add(BackgroundWork._stay.__code__)  # noqa: SLF001 - its own module
