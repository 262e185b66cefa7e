"""Make graphmill usable in the child of `os.fork`.

The child has one thread, the one that forked. The threads of pools are gone although their objects
exist, and a lock that another thread held at that moment stays locked forever. So objects that own
threads are tracked and notified in the child, long-lived locks are re-initialized there, and
operations that must not be torn (an import, a write into the memory of a variable) end before the
fork.

A step that is in progress cannot be continued in the child, only new steps can be run.
"""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphmill.runtime.process import effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_FORK_DELAY_SECONDS: Final = 30.0
"""Seconds that a fork waits for operations that it must not interrupt."""


class ForkAware(Protocol):
    """An object that owns threads, or state of other threads."""

    def after_fork_in_child(self) -> None:
        """Forget all threads except this one."""


_tracked: Final[weakref.WeakKeyDictionary[ForkAware, None]] = weakref.WeakKeyDictionary()
_locks: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_suspended: Final[list[tuple[Callable[[], None], Callable[[], None]]]] = []
_deferral: Final = threading.RLock()


def track_forks(owner: ForkAware) -> None:
    """Notify an object of forks, in the child, in the order of tracking."""
    _tracked[owner] = None


def fork_safe_lock() -> threading.Lock:
    """Return a lock that is unlocked in a forked child, even if it was held in the parent.

    For locks that live longer than a step: making one takes a microsecond.
    """
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def fork_safe_rlock() -> Any:
    """Return a reentrant lock that is unlocked in a forked child."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def suspend_during_forks(begin: Callable[[], None], end: Callable[[], None]) -> None:
    """Call `begin` before each fork, and `end` after it in parent and child."""
    _suspended.append((begin, end))


def never_destroy(value: object) -> None:
    """Keep an object alive past the end of the interpreter.

    For objects whose destructor waits for threads, which a forked child does not have.
    """
    import ctypes  # here: few programs fork

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


@contextmanager
def deferred_forks() -> Iterator[None]:
    """Block forks of other threads until the block has ended.

    For imports in background threads: a module that is half imported, and locked by a thread that
    does not exist, could never be imported in the child.
    """
    with _deferral:
        yield


@cache
def watch_forks() -> bool:
    """Install the fork hooks; return whether that was possible."""
    if not hasattr(os, "register_at_fork") or not effects.FORK.is_enabled:
        return False
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child
    )
    return True


def _before_fork() -> None:
    _deferral.acquire(timeout=MAX_FORK_DELAY_SECONDS)
    for begin, _ in _suspended:
        begin()


def _after_in_parent() -> None:
    for _, end in _suspended:
        end()
    try:
        _deferral.release()
    except RuntimeError:  # it could not be acquired in time
        return


def _after_in_child() -> None:
    # As the standard library does with its own locks, in `threading`, `logging` and others.
    for lock in [_deferral, *_locks]:
        lock._at_fork_reinit()  # noqa: SLF001
    for _, end in _suspended:
        end()
    for owner in list(_tracked):
        owner.after_fork_in_child()
