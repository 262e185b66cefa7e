"""Reduce the GIL switch interval while a background thread is running.

A computing thread releases the GIL only every 5 ms. A thread that imports modules or compiles must
acquire the GIL again after every file access, thousands of times: beside a loop of steps it would
hardly make progress.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from graphmill.runtime.process import effects, fork

_SECONDS: Final = 0.0001


class LowSwitchInterval:
    """A context in which the switch interval is low; restored when the last one ends.

    The interval is process-wide (`sys.setswitchinterval`). An interval that is lower already is
    kept, and one that the program sets meanwhile is not overwritten.

    Threads: `_lock` guards the count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._before = 0.0
        self._ours = 0.0
        fork.track_forks(self)

    def __enter__(self) -> None:
        if not effects.SWITCH_INTERVAL.is_enabled:
            return
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._before = sys.getswitchinterval()
                sys.setswitchinterval(min(self._before, _SECONDS))
                self._ours = sys.getswitchinterval()

    def __exit__(self, *_: object) -> None:
        if not effects.SWITCH_INTERVAL.is_enabled:
            return
        with self._lock:
            self._users -= 1
            if not self._users:
                self._restore()

    def _restore(self) -> None:
        if sys.getswitchinterval() == self._ours:
            sys.setswitchinterval(self._before)

    def after_fork_in_child(self) -> None:
        """Restore the interval: the threads that lowered it are not in this process."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._restore()


LOW_SWITCH_INTERVAL: Final = LowSwitchInterval()
"""The instance of this process, which has only one switch interval."""
