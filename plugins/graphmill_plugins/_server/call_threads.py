"""`CallThreads`: run calls in threads so that a blocked call delays no other."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_SECONDS = 30.0
"""Seconds after which an idle thread ends."""


class Submitted:
    """The result of `CallThreads.submit`, which notifies the server when a call has ended."""

    __slots__ = ("_callback", "_is_done", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callback: Callable[[Any], None] | None = None
        self._is_done = False

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Call `callback` with this object when the call has ended, immediately if it has."""
        with self._lock:
            if not self._is_done:
                self._callback = callback
                return
        callback(self)

    def finish(self) -> None:
        """Record that the call has ended."""
        with self._lock:
            self._is_done = True
            callback = self._callback
        if callback is not None:
            callback(self)


class _CallThread:
    """One thread, which waits for work until it has been idle for too long."""

    def __init__(self, owner: CallThreads, work: Callable[[], None]) -> None:
        self._owner = owner
        self._work: Callable[[], None] | None = work
        self._wake = threading.Lock()
        self._wake.acquire()
        threading.Thread(target=self._serve, name="graphmill-call", daemon=True).start()

    def submit(self, work: Callable[[], None] | None) -> None:
        """Pass work to the idle thread; None ends it."""
        self._work = work
        self._wake.release()

    def _serve(self) -> None:
        work = self._work
        while work is not None:
            self._work = None
            work()
            del work  # the request and the response of a call that has ended
            if not self._owner.take_back(self):
                return
            if not self._wake.acquire(timeout=self._owner.idle_seconds):
                if self._owner.retire(self):
                    return
                self._wake.acquire()  # work is on its way
            work = self._work


class CallThreads:
    """Runs each call immediately, in an idle thread or a new one.

    A step may wait indefinitely for another client's step (a queue, a barrier), so a call must
    never wait for a thread that another call holds. The most recently used thread is used first;
    threads that are idle for a while end.

    Threads: any may submit; `_lock` guards the idle ones.

    Args:
        idle_seconds: how long an idle thread is kept.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self.idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._idle: list[_CallThread] = []
        self._is_shut_down = False

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Submitted:
        """Run a function in an idle thread or a new one; it must not raise."""
        submitted = Submitted()

        def work() -> None:
            try:
                function(*arguments)
            finally:
                submitted.finish()

        with self._lock:
            thread = self._idle.pop() if self._idle else None
        if thread is None:
            _CallThread(self, work)
        else:
            thread.submit(work)
        return submitted

    def take_back(self, thread: _CallThread) -> bool:
        """Add a thread to the idle ones; return False if it should end instead."""
        with self._lock:
            if not self._is_shut_down:
                self._idle.append(thread)
            return not self._is_shut_down

    def retire(self, thread: _CallThread) -> bool:
        """Let an idle thread end; return False if it has just received work."""
        with self._lock:
            if thread not in self._idle:
                return False
            self._idle.remove(thread)
            return True

    def shut_down(self) -> None:
        """End idle threads; busy ones end with their calls."""
        with self._lock:
            self._is_shut_down = True
            idle, self._idle = self._idle, []
        for thread in idle:
            thread.submit(None)

    def __len__(self) -> int:
        return len(self._idle)
