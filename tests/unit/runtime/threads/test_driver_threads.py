"""Driver threads: one per step in flight, reused and ended."""

from __future__ import annotations

import threading

from graphmill.runtime.threads.driver_threads import DriverThreads
from graphmill.testing.timeouts import within


def test_tasks_that_wait_for_each_other_all_run() -> None:
    drivers = DriverThreads()
    barrier = threading.Barrier(41)
    for _ in range(40):
        drivers.submit(barrier.wait)
    within(barrier.wait, "forty tasks at once")
    assert drivers.num_started == 40
    drivers.close()


def test_idle_threads_are_reused_and_ended() -> None:
    drivers = DriverThreads()
    seen: set[threading.Thread] = set()
    for _ in range(20):
        done = threading.Event()

        def task(done: threading.Event = done) -> None:
            seen.add(threading.current_thread())
            done.set()

        drivers.submit(task)
        within(done.wait, "a task")
    assert drivers.num_started <= 20
    drivers.close()
    for thread in seen:
        within(thread.join, "the end of a driver")
    last = threading.Event()
    drivers.submit(last.set)
    within(last.wait, "a task after the end")
