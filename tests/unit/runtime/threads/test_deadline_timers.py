"""One thread calls the actions of all deadlines that pass, and ends when it is idle."""

from __future__ import annotations

import os
import threading
import warnings
import weakref

import pytest

import graphmill
from graphmill import errors
from graphmill.runtime.threads.deadline_timers import DeadlineTimers
from graphmill.testing.timeouts import TIMEOUT


def watchers() -> set[threading.Thread]:
    return {found for found in threading.enumerate() if found.name == "graphmill-deadlines"}


def test_actions_are_called_in_the_order_of_their_deadlines() -> None:
    timers, called, done = DeadlineTimers(), [], threading.Event()
    timers.start(0.2, done.set)
    timers.start(0.01, lambda: called.append("first"))
    assert done.wait(TIMEOUT)
    assert called == ["first"]


def test_earlier_deadline_wakes_the_thread() -> None:
    timers, done = DeadlineTimers(), threading.Event()
    late = timers.start(TIMEOUT * 10, lambda: None)
    timers.start(0.01, done.set)
    assert done.wait(TIMEOUT)
    late.cancel()


def test_cancelled_action_is_not_called() -> None:
    timers, called, done = DeadlineTimers(), [], threading.Event()
    timer = timers.start(0.01, lambda: called.append("cancelled"))
    timer.cancel()
    timer.cancel()
    timers.start(0.02, done.set)
    assert done.wait(TIMEOUT)
    assert not called


def test_called_action_is_not_kept_while_the_thread_waits() -> None:
    class Action:
        def __call__(self) -> None:
            pass

    timers, dropped, action = DeadlineTimers(), threading.Event(), Action()
    weakref.finalize(action, dropped.set)
    late = timers.start(TIMEOUT * 10, lambda: None)
    timers.start(0.01, action)
    del action
    assert dropped.wait(TIMEOUT)
    late.cancel()


def test_action_that_blocks_does_not_delay_the_next_one() -> None:
    timers, done = DeadlineTimers(), threading.Event()
    blocked = threading.Event()
    timers.start(0.01, lambda: done.wait(TIMEOUT) and blocked.set())
    timers.start(0.02, done.set)
    assert done.wait(TIMEOUT)
    assert blocked.wait(TIMEOUT)


def test_cancelled_timers_are_dropped_before_their_deadline() -> None:
    timers = DeadlineTimers()
    first = timers.start(TIMEOUT * 10, lambda: None)
    for _ in range(1000):
        timers.start(TIMEOUT * 10, lambda: None).cancel()
    assert len(timers._heap) < 200
    first.cancel()


def test_thread_ends_when_idle_and_starts_again() -> None:
    before = watchers()
    timers, done = DeadlineTimers(idle_seconds=0.01), threading.Event()
    timers.start(0.01, done.set)
    for thread in watchers() - before:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    done.clear()
    timers.start(0.01, done.set)
    assert done.wait(TIMEOUT)


def test_step_with_a_timeout_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant(1.0)
    config = {"operation_timeout_in_ms": 60_000, "graphmill": {"jit": "off"}}
    with graphmill.Session(graph=graph, config=config) as session:
        session.run(x)
        monkeypatch.setattr(threading.Thread, "start", lambda thread: pytest.fail(thread.name))
        assert session.run(x) == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_step_of_a_forked_child_ends_at_its_deadline() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        queue = graphmill.ops.data_flow.fifo_queue_v2(component_types=["float32"])
        element = graphmill.ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])[0]
        x = graph.constant(1.0)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        session.run(x, options={"timeout_in_ms": 60_000})
        with warnings.catch_warnings():  # Python warns of threads, JAX of itself
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            child = os.fork()
        if not child:
            code = 1
            try:
                session.run(element, options={"timeout_in_ms": 100})
            except errors.DeadlineExceededError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
