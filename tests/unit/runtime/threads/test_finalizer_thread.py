"""Finalizers that acquire locks run in a thread, whatever lock the collecting thread holds."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import pytest

import graphmill
from graphmill.plugin.host import default_host
from graphmill.runtime.threads.finalizer_thread import FINALIZER_THREAD, FinalizerThread
from graphmill.testing.timeouts import TIMEOUT


class Owner:
    """An object in a cycle, which only the garbage collector frees."""

    def __init__(self) -> None:
        self.myself = self


def test_action_may_acquire_a_lock_that_the_collecting_thread_holds() -> None:
    finalizers, lock, done = FinalizerThread(), threading.Lock(), threading.Event()

    def action() -> None:
        with lock:
            done.set()

    finalizers.call_when_dropped(Owner(), action)
    with lock:
        gc.collect()
        assert not done.is_set()
    assert done.wait(TIMEOUT)


def test_actions_run_in_order_in_one_thread_and_once() -> None:
    finalizers, ran = FinalizerThread(), []
    owners = [Owner() for _ in range(5)]
    for number, owner in enumerate(owners):
        finalizers.call_when_dropped(
            owner, lambda number=number: ran.append((number, threading.current_thread()))
        )
    while owners:
        owner = owners.pop(0)
        owner.myself = None
        del owner
    assert finalizers.wait_idle(TIMEOUT)
    assert [number for number, _ in ran] == [0, 1, 2, 3, 4]
    assert {thread.name for _, thread in ran} == {"graphmill-finalizers"}
    finalizers._finish()
    assert len(ran) == 5


def test_detached_finalizer_does_nothing() -> None:
    finalizers, ran = FinalizerThread(), []
    owner = Owner()
    finalizer = finalizers.call_when_dropped(owner, lambda: ran.append(1))
    assert finalizer.detach() is not None
    assert finalizer.detach() is None
    del owner
    gc.collect()
    assert finalizers.wait_idle(TIMEOUT)
    finalizers._finish()
    assert not ran


def test_failed_action_is_reported_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    reported, ran, finalizers = [], [], FinalizerThread()
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))
    finalizers.call_when_dropped(Owner(), lambda: ran.append(1 // 0))
    gc.collect()
    finalizers.call_when_dropped(Owner(), lambda: ran.append(1))
    gc.collect()
    assert finalizers.wait_idle(TIMEOUT)
    assert ran == [1]
    assert isinstance(reported[0], ZeroDivisionError)


_AT_EXIT = """
from graphmill.runtime.threads.finalizer_thread import FINALIZER_THREAD
class Owner: pass
kept, other, dropped = Owner(), Owner(), Owner()
FINALIZER_THREAD.call_when_dropped(kept, lambda: print("kept"))
FINALIZER_THREAD.call_when_dropped(other, lambda: print("not at exit"), at_exit=False)
FINALIZER_THREAD.call_when_dropped(dropped, lambda: print("dropped"))
del dropped
"""


def test_exit_runs_the_actions_of_objects_that_still_exist() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AT_EXIT], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["dropped", "kept"]


_IN_A_CHILD = """
import os
from graphmill.runtime.threads.finalizer_thread import FINALIZER_THREAD
class Owner: pass
before = Owner()
FINALIZER_THREAD.call_when_dropped(before, lambda: print("before", flush=True))
pid = os.fork()
if pid:
    _, status = os.waitpid(pid, 0)
    del before
    assert FINALIZER_THREAD.wait_idle(30) and not status
else:
    FINALIZER_THREAD.call_when_dropped(Owner(), lambda: print("child", flush=True))
    del before
    os._exit(0 if FINALIZER_THREAD.wait_idle(30) else 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_child_of_a_fork_has_its_own_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_CHILD], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["child", "before", "before"]


def test_session_of_a_dataset_may_be_dropped_while_the_host_is_locked() -> None:
    """Closing that session acquires this lock, which a thread may hold while it is collected."""
    dataset = graphmill.data.Dataset.range(3).map(lambda x: x + 1)
    assert [int(value) for value in dataset] == [1, 2, 3]
    session = dataset.value.reader._opened.session
    with default_host().background._lock:
        del dataset
        gc.collect()
    assert FINALIZER_THREAD.wait_idle(TIMEOUT)
    with pytest.raises(RuntimeError, match="closed"):
        session.run([])
