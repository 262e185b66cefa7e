"""Mutexes are exclusive and fair, and released when a lock is lost."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.threads.finalizer_thread import FINALIZER_THREAD
from graphmill.testing.timeouts import TIMEOUT
from graphmill_plugins.kernels.state.mutex import Hold, Mutex


class Waiter:
    """A caller that requests a mutex, and the result; `holds` keeps the lock alive."""

    def __init__(self) -> None:
        self.lock: Any = None
        self.error: BaseException | None = None
        self.holds: list[Hold] = []

    def __call__(self, lock: Any = None, error: BaseException | None = None) -> None:
        self.lock, self.error = lock, error


def ask(mutex: Mutex, cancellation: CancellationManager | None = None) -> Waiter:
    waiter = Waiter()
    mutex.acquire(waiter.holds.append, waiter, cancellation)
    return waiter


def test_a_released_mutex_goes_to_the_next_waiter() -> None:
    mutex = Mutex("m")
    waiters = [ask(mutex) for _ in range(3)]
    assert [waiter.lock is not None for waiter in waiters] == [True, False, False]
    waiters[0].lock.release()
    assert [waiter.lock is not None for waiter in waiters] == [True, True, False]


def test_releasing_twice_has_no_effect() -> None:
    mutex = Mutex("m")
    first, second, third = (ask(mutex) for _ in range(3))
    first.lock.release()
    first.lock.release()
    assert second.lock is not None
    assert third.lock is None


def test_end_of_step_releases_the_mutex() -> None:
    mutex = Mutex("m")
    first, second = ask(mutex), ask(mutex)
    first.holds.clear()
    assert FINALIZER_THREAD.wait_idle(TIMEOUT)
    assert second.lock is not None
    first.lock.release()
    assert ask(mutex).lock is None


def test_cancelled_waiter_leaves_the_queue() -> None:
    mutex, cancellation = Mutex("m"), CancellationManager()
    first, second, third = ask(mutex), ask(mutex, cancellation), ask(mutex)
    cancellation.start_cancel()
    assert isinstance(second.error, errors.CancelledError)
    first.lock.release()
    assert third.lock is not None


def test_a_step_that_fails_gives_the_mutex_back() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("int32", ())
        mutex = ops.state.mutex_v2()
        lock = ops.state.mutex_lock(mutex)
        with graph.control_dependencies([lock]):
            quotient = 10 // x
        with graph.control_dependencies([quotient]):
            done = ops.state.consume_mutex_lock(lock)
    with graphmill.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="division by zero"):
            session.run(done, {x: 0})
        session.run(done, {x: 1})
        session.run(done, {x: 2})
