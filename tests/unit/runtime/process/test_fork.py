"""Locks and objects are reset in a forked child."""

from __future__ import annotations

import gc
import os
import threading
import warnings
import weakref
from typing import TYPE_CHECKING

import pytest

from graphmill.runtime.process import fork
from graphmill.runtime.threads.thread_pool import ThreadPool

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no os.fork")


def exit_code_in_child(check: Callable[[], bool]) -> int:
    """Fork, and return 0 if `check` is true in the child, which must not block."""
    fork.watch_forks()
    with warnings.catch_warnings():
        # Python of threads (from 3.12), JAX of itself: both are right, and not what is tested.
        warnings.simplefilter("ignore", (DeprecationWarning))
        warnings.simplefilter("ignore", (RuntimeWarning))
        pid = os.fork()
    if not pid:
        try:
            os._exit(0 if check() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize("make", [fork.fork_safe_lock, fork.fork_safe_rlock])
def test_lock_is_free_in_the_child(make: Callable[[], threading.Lock]) -> None:
    lock, held, may_end = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            may_end.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(60)
    try:
        assert not lock.acquire(blocking=False)
        assert exit_code_in_child(lambda: lock.acquire(blocking=False)) == 0
        assert not lock.acquire(blocking=False), "it is still held in the parent"
    finally:
        may_end.set()
        thread.join(60)


def test_tracked_objects_are_notified_in_order_in_child_only() -> None:
    notified: list[int] = []

    class Owner:
        def __init__(self, number: int) -> None:
            self.number = number
            fork.track_forks(self)

        def after_fork_in_child(self) -> None:
            notified.append(self.number)

    owners = [Owner(number) for number in range(20)]
    assert exit_code_in_child(lambda: notified == list(range(20))) == 0
    assert not notified
    del owners


def test_tracking_keeps_nothing_alive() -> None:
    pool = ThreadPool(1)
    lock = fork.fork_safe_lock()
    gone = weakref.ref(pool), weakref.ref(lock)
    del pool, lock
    gc.collect()
    assert [reference() for reference in gone] == [None, None]


def test_fork_in_another_thread_waits_for_a_deferral() -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(exit_code_in_child(lambda: True)))
    with fork.deferred_forks():
        assert exit_code_in_child(lambda: True) == 0, "the same thread may fork"
        thread.start()
        thread.join(0.05)
        assert not codes
    thread.join(60)
    assert codes == [0]


def test_suspended_work_is_resumed_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    state: list[str] = []
    pair = (lambda: state.append("begin")), (lambda: state.append("end"))
    monkeypatch.setattr(fork, "_suspended", [*fork._suspended, pair])
    assert exit_code_in_child(lambda: state == ["begin", "end"]) == 0
    assert state == ["begin", "end"]


def test_pool_drops_tasks_of_the_parent_and_starts_threads_in_the_child() -> None:
    pool, may_end, ran = ThreadPool(1), threading.Event(), []
    begun = threading.Event()
    pool.schedule(lambda: (begun.set(), may_end.wait(60)))
    pool.schedule(lambda: ran.append("parent"))
    assert begun.wait(60)

    def check() -> bool:
        done = threading.Event()
        pool.schedule(lambda: (ran.append("child"), done.set()))
        return done.wait(30) and ran == ["child"] and pool.num_started == 1

    try:
        assert exit_code_in_child(check) == 0
    finally:
        may_end.set()
        pool.close()
    assert ran == ["parent"]
