"""`DeadlineTimers`: call actions when deadlines have passed, with one thread for all deadlines.

Most steps end before their deadline. A `threading.Timer` for each of them would start and end a
thread per step, which takes longer than many steps.
"""

from __future__ import annotations

import heapq
import math
import threading
import time
from typing import TYPE_CHECKING, Final

from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import SHUTDOWN

if TYPE_CHECKING:
    from collections.abc import Callable

IDLE_SECONDS: Final = 10.0
"""Seconds without deadlines after which the thread ends."""
_MIN_CANCELLED: Final = 64
"""As many cancelled timers may wait for their deadline in any case."""


class DeadlineTimer:
    """One action to call at its deadline.

    Attributes:
        action: what to call; None once it is called or cancelled.
    """

    __slots__ = ("_timers", "action", "deadline")

    def __init__(self, timers: DeadlineTimers, deadline: float, action: Callable[[], None]) -> None:
        self._timers = timers
        self.deadline = deadline
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        """Do not call the action, unless its call has begun already; safe to call twice."""
        self._timers.cancel(self)

    def __lt__(self, other: DeadlineTimer) -> bool:
        return self.deadline < other.deadline


class DeadlineTimers:
    """Call actions at their deadlines, each in a thread of its own, because an action may block.

    A cancelled timer stays in the heap until its deadline, or until half of the timers are
    cancelled. So the thread is not woken by each step.

    Threads: safe to use from all threads. `_changed` guards the heap, and wakes the thread that
    waits for the first deadline; the first timer starts it, and it ends when it is idle.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._reset()
        fork.track_forks(self)

    def _reset(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._heap: list[DeadlineTimer] = []
        self._num_cancelled = 0
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None

    def start(self, seconds: float, action: Callable[[], None]) -> DeadlineTimer:
        """Call an action after some time, unless the returned timer is cancelled before.

        Args:
            seconds: the time from now on.
            action: what to call, in another thread.

        Raises:
            RuntimeError: no thread can be started.
        """
        timer = DeadlineTimer(self, time.monotonic() + seconds, action)
        with self._changed:
            heapq.heappush(self._heap, timer)
            if self._thread is None:
                self._start_thread()
            elif timer.deadline < self._wakes_at:
                self._changed.notify()
        return timer

    def cancel(self, timer: DeadlineTimer) -> None:
        """Do not call the action of a timer, unless its call has begun already."""
        with self._changed:
            if timer.action is None:
                return
            timer.action = None
            self._num_cancelled += 1
            if self._num_cancelled > max(_MIN_CANCELLED, len(self._heap) // 2):
                self._heap = [timer for timer in self._heap if timer.action is not None]
                heapq.heapify(self._heap)
                self._num_cancelled = 0

    def after_fork_in_child(self) -> None:
        """Forget the thread, which is not in this process, and the steps of other threads."""
        self._reset()

    def _start_thread(self) -> None:
        fork.watch_forks()
        thread = threading.Thread(target=self._watch, name="graphmill-deadlines", daemon=True)
        thread.start()
        self._thread = thread

    def _watch(self) -> None:
        """Call the actions; return when there has been no timer for some time."""
        while True:
            with self._changed:
                due = self._take_due()
                if not due and not self._wait():
                    self._thread = None
                    return
            while due:  # without a variable that would keep the last action while the thread waits
                _call_in_thread(due.pop(0))

    def _take_due(self) -> list[Callable[[], None]]:
        """Remove the timers that are due, and cancelled ones before them; return the actions."""
        due = []
        now = time.monotonic()
        while self._heap and (self._heap[0].action is None or self._heap[0].deadline <= now):
            timer = heapq.heappop(self._heap)
            if timer.action is None:
                self._num_cancelled -= 1
            else:
                due.append(timer.action)
                timer.action = None
        return due

    def _wait(self) -> bool:
        """Wait for the first deadline or an earlier one; return False if none came when idle."""
        if self._heap:
            self._wakes_at = self._heap[0].deadline
            self._changed.wait(min(self._wakes_at - time.monotonic(), threading.TIMEOUT_MAX))
            return True
        self._wakes_at = math.inf
        self._changed.wait(self._idle_seconds)
        return bool(self._heap)


def _call_in_thread(action: Callable[[], None]) -> None:
    thread = threading.Thread(target=action, name="graphmill-deadline", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread is left: later deadlines wait for this action
        action()


SHUTDOWN.idle_code.add(DeadlineTimers._watch.__code__)  # noqa: SLF001 - its own module

DEADLINE_TIMERS: Final = DeadlineTimers()
"""The timers of the process."""
