"""Coordinate the threads of graphmill with the shutdown of the interpreter.

Before Python 3.14, a daemon thread ends where it next acquires the GIL once the interpreter shuts
down. Inside a C++ library such as JAX or PyTorch, that aborts the whole process: "FATAL: exception
not rethrown". So once the main thread has ended, daemon threads start no further steps, and those
that run one get a moment to finish it.
"""

from __future__ import annotations

import atexit
import sys
import threading
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from graphmill.runtime.process import effects, fork

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

THREAD_END_GRACE_SECONDS: Final = 5.0
"""Seconds that the shutdown waits for a thread to finish its step or compilation."""

_BETWEEN_STEPS: Final = 0.05
"""Seconds to wait for a thread between two steps to begin the next one."""


class Shutdown:
    """Ends steps and background work while the interpreter can still wait for threads.

    Attributes:
        has_begun: set when the main thread has ended; read without a lock by each step.
        busy_code: functions that a thread executes while it computes or waits for a result.
        idle_code: functions in which a thread only waits for work and may be ended.
    """

    def __init__(self) -> None:
        self.has_begun = False
        self.busy_code: set[CodeType] = set()
        self.idle_code: set[CodeType] = set()
        self._actions: list[Callable[[], None]] = []
        self._ended: SimpleQueue[threading.Thread] = SimpleQueue()
        fork.track_forks(self)

    def register(self, action: Callable[[], None]) -> None:
        """Call `action` when the shutdown begins, while all modules still exist."""
        self._actions.append(action)

    def exit_daemon(self) -> None:
        """End the calling thread, which is about to start a step, if it is a daemon.

        Raises:
            SystemExit: it is; nothing is printed, as where the interpreter ends it.
        """
        thread = threading.current_thread()
        if thread.daemon:
            self._ended.put(thread)
            raise SystemExit

    def begin(self) -> None:
        """Begin the shutdown; return when no daemon thread computes, or after a grace period."""
        self.has_begun = True
        for action in self._actions:
            action()
        frames = sys._current_frames()  # noqa: SLF001 - what faulthandler shows
        busy = [
            (thread, frame)
            for thread in threading.enumerate()
            if thread.daemon and (frame := frames.get(thread.ident or 0)) is not None
            if frame.f_code not in self.idle_code
        ]
        for thread, frame in busy:
            if self._computes(frame):
                thread.join(THREAD_END_GRACE_SECONDS)
        # A thread that has ended still has to destroy what libraries keep for it.
        while busy and (ended := self._next_ended()) is not None:
            ended.join(THREAD_END_GRACE_SECONDS)

    def _next_ended(self) -> threading.Thread | None:
        try:
            return self._ended.get(timeout=_BETWEEN_STEPS)
        except Empty:
            return None

    def _computes(self, frame: FrameType) -> bool:
        caller: FrameType | None = frame
        while caller is not None:
            if caller.f_code in self.busy_code:
                return True
            caller = caller.f_back
        return False

    def after_fork_in_child(self) -> None:
        """Forget the threads of the parent."""
        self._ended = SimpleQueue()


SHUTDOWN: Final = Shutdown()


def call_at_exit(action: Callable[[], None]) -> None:
    """Call `action` at the exit of the interpreter, after all threads but daemons have ended."""
    if effects.SHUTDOWN.is_enabled:
        atexit.register(action)


@cache
def watch_for_shutdown() -> bool:
    """Install the shutdown hook; return False if the shutdown has begun already."""
    if not effects.SHUTDOWN.is_enabled:
        return True
    try:
        # As concurrent.futures does; atexit's callbacks come when later imports are gone already.
        threading._register_atexit(SHUTDOWN.begin)  # type: ignore[attr-defined]  # noqa: SLF001
    except RuntimeError:
        return False
    return True
