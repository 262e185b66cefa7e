"""Run the finalizers that acquire locks, or wait, in a thread of their own.

The garbage collector runs a finalizer in any thread and between any two instructions, also inside a
`with lock:` block. There a finalizer that acquires the same lock waits forever for its own thread.
So the finalizers of this module only put their action into a queue, which a finalizer may do at any
time (`queue.SimpleQueue`), and one thread runs the actions. Use `weakref.finalize` if the action
neither waits nor acquires a lock, except one that only code with a reference to the owner holds.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from graphmill.runtime.process import fork
from graphmill.runtime.process.shutdown import (
    SHUTDOWN,
    THREAD_END_GRACE_SECONDS,
    call_at_exit,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Action = Callable[[], None]


class FinalizerThread:
    """A queue of actions, and the thread that runs them, which starts with the first finalizer.

    The child of a fork has no such thread until it registers a finalizer.

    Threads: `_lock` guards the start of the thread. Finalizers do not acquire it.
    """

    def __init__(self) -> None:
        self._lock = fork.fork_safe_lock()
        self._actions: SimpleQueue[Action] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._numbers = itertools.count()
        self._at_exit: dict[int, weakref.finalize[..., Any]] = {}
        self._is_watched = False
        fork.track_forks(self)

    def call_when_dropped(
        self, owner: Any, action: Action, *, at_exit: bool = True
    ) -> weakref.finalize[..., Any]:
        """Call `action` after `owner` was garbage collected; see function `call_when_dropped`."""
        self._start()
        number = next(self._numbers)
        finalizer = weakref.finalize(owner, self._hand_over, number, action)
        finalizer.atexit = False
        if at_exit:
            self._at_exit[number] = finalizer
        return finalizer

    def wait_idle(self, timeout: float | None = None) -> bool:
        """Wait until the actions queued so far have run; return False after `timeout` seconds."""
        if self._thread is None:
            self._run_queued()
            return True
        done = threading.Event()
        self._actions.put(done.set)
        return done.wait(timeout)

    def after_fork_in_child(self) -> None:
        """Forget the thread, which is not in this process, and the queue it may have held."""
        self._actions = SimpleQueue()
        self._thread = None

    def _hand_over(self, number: int, action: Action) -> None:
        self._at_exit.pop(number, None)
        self._actions.put(action)

    def _start(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is not None:
                return
            if not self._is_watched:
                self._is_watched = True
                fork.watch_forks()
                call_at_exit(self._finish)
            thread = threading.Thread(
                target=_serve, args=(self._actions,), name="graphmill-finalizers", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # the interpreter shuts down: `_finish` runs the actions
                return
            self._thread = thread

    def _finish(self) -> None:
        """Run the remaining actions, also those of objects that still exist."""
        self.wait_idle(THREAD_END_GRACE_SECONDS)
        while self._at_exit:
            _, finalizer = self._at_exit.popitem()
            detached = finalizer.detach()
            if detached is not None:
                _, _, (_, action), _ = detached
                _run(action)
        self._run_queued()

    def _run_queued(self) -> None:
        while True:
            try:
                action = self._actions.get_nowait()
            except Empty:
                return
            _run(action)


def _serve(actions: SimpleQueue[Action]) -> None:
    while True:
        _run(actions.get())


def _run(action: Action) -> None:
    try:
        action()
    except BaseException:  # noqa: BLE001 - reported like in any thread; later actions run
        thread = threading.current_thread()
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), thread)))


SHUTDOWN.idle_code.add(_serve.__code__)
SHUTDOWN.busy_code.add(_run.__code__)

FINALIZER_THREAD: Final = FinalizerThread()
"""The thread of the process."""


def call_when_dropped(
    owner: Any, action: Action, *, at_exit: bool = True
) -> weakref.finalize[..., Any]:
    """Call `action`, which may acquire locks and wait, after `owner` was garbage collected.

    A thread calls it soon after. To call it earlier, detach the finalizer that is returned, and
    call the action if it was still attached.

    Args:
        owner: the object; `action` must not refer to it.
        action: what to do. If it raises, `threading.excepthook` reports the exception.
        at_exit: whether to call it at the exit of the interpreter if the owner lives until then.
    """
    return FINALIZER_THREAD.call_when_dropped(owner, action, at_exit=at_exit)
