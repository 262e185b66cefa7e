"""Run jobs that speed up later steps in a background thread.

One thread at a time serves all sessions of a host. It ends when the queue is empty, so that an idle
program has no such thread. The shutdown of the interpreter waits for the job in progress and drops
queued jobs; closing a session drops its queued jobs and waits for its own job in progress. A wait
of more than a second is announced by a warning that names the job. A job that imports modules ends
at the next one when the shutdown begins: large packages take seconds to import.

A thread that ends during the shutdown may abort the process: C++ libraries that it called, JAX
among them, destroy thread-local state when a thread ends and acquire the GIL to do so, which is no
longer possible then. So a thread that works at that time blocks forever instead of ending.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import SHUTDOWN, watch_for_shutdown
from graphmill.runtime.process.switch_interval import LOW_SWITCH_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Callable

_MAX_WAITING: Final = 256
_SILENT_SECONDS: Final = 1.0
"""The seconds to wait for a job before a warning says so."""


class _JobEndedError(BaseException):
    """Ends the job in progress, whose result is not needed: the interpreter shuts down."""


class _Job(NamedTuple):
    owner: object
    run: Callable[[], None]
    description: str


_NO_JOB: Final = _Job(None, lambda: None, "")


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
        self._jobs: deque[_Job] = deque()
        self._running = _NO_JOB
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

    def submit(
        self, owner: object, job: Callable[[], None], description: str = "a background job"
    ) -> bool:
        """Queue a job for the thread; return whether it was accepted.

        The job is not accepted if too many jobs wait, or if no thread can be started: because the
        system has no more threads, or because the interpreter shuts down.

        Args:
            owner: the object that needs the job; see `forget`.
            job: the function to call; it must itself check whether its result is still needed.
            description: what it does, for warnings: "the compilation of …".
        """
        with self._lock:
            if self._is_ending or len(self._jobs) >= _MAX_WAITING:
                self.num_dropped += 1
                return False
            self._jobs.append(_Job(owner, job, description))
            return self._is_served() or self._start()

    def after_fork_in_child(self) -> None:
        """Forget the thread, which is not in this process, its job and the queue."""
        self._job_done = threading.Condition(self._lock)
        self._jobs.clear()
        self._running, self._thread = _NO_JOB, None
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
            thread = self._thread
            is_served = self._is_served()
        if thread is not None:
            sys.meta_path.insert(0, _NoImports(thread))
        if is_served and not self._is_idle.wait(_SILENT_SECONDS):
            _warn(f"the exit of the process waits for {self._running.description}")
            self._is_idle.wait()

    def forget(self, owner: object, *, wait: bool = True) -> None:
        """Drop the queued jobs of an owner.

        Args:
            owner: the owner.
            wait: also wait for a running job of the owner, which the caller must do before it frees
                objects that the job uses.
        """
        with self._lock:
            remaining = [job for job in self._jobs if job.owner is not owner]
            self.num_dropped += len(self._jobs) - len(remaining)
            self._jobs = deque(remaining)
            if not wait or threading.current_thread() is self._thread:
                return
            if self._wait_for(owner, _SILENT_SECONDS):
                return
            description = self._running.description
        _warn(f"the close of a session waits for {description}")
        with self._lock:
            self._wait_for(owner, None)

    def _wait_for(self, owner: object, timeout: float | None) -> bool:
        """Wait until no job of an owner runs; return False after a timeout; holds the lock."""
        return self._job_done.wait_for(
            lambda: self._running.owner is not owner or not self._is_served(), timeout
        )

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until the queue is empty and no job runs; return False after `timeout` seconds."""
        return self._is_idle.wait(timeout)

    def _serve(self) -> None:
        with LOW_SWITCH_INTERVAL:
            self._work()

    def _work(self) -> None:
        from graphmill.runtime.process.full_collections import (  # many programs start no thread
            NO_FULL_COLLECTIONS,
        )

        while True:
            with self._lock:
                if self._is_ending:
                    break
                if not self._jobs:
                    self._thread = None
                    self._is_idle.set()
                    return
                self._running = self._jobs.popleft()
            try:
                with NO_FULL_COLLECTIONS:  # which would stop all threads again and again
                    self._running.run()
            except _JobEndedError:
                with self._lock:
                    self.num_dropped += 1
            except BaseException:  # noqa: BLE001 - reported like in any thread; later jobs run
                threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), self._thread)))
            with self._job_done:
                self._running = _NO_JOB
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


class _NoImports:
    """A finder of modules that ends the job of a thread that imports another module.

    It is installed when the interpreter shuts down, so that half imported packages do no harm.

    Args:
        thread: the thread.
    """

    def __init__(self, thread: threading.Thread) -> None:
        self._thread = thread

    def find_spec(self, _name: str, _path: object = None, _target: object = None) -> None:
        """Find no module; raise in the thread."""
        if threading.current_thread() is self._thread:
            raise _JobEndedError


def _warn(text: str) -> None:
    import logging  # here: the first warning of many programs comes at their end

    logging.getLogger("graphmill.jit").warning("%s", text)


_ALL: weakref.WeakSet[BackgroundWork] = weakref.WeakSet()


def _end_all() -> None:
    for work in list(_ALL):
        work.end()


SHUTDOWN.register(_end_all)
SHUTDOWN.idle_code.add(BackgroundWork._stay.__code__)  # noqa: SLF001 - its own module
