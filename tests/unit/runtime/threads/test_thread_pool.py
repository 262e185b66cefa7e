"""The event loop of a step and the threads of kernels (clauses S2, E5)."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from graphmill import errors
from graphmill.runtime.steps.step_runner import StepRunner
from graphmill.runtime.threads.thread_pool import SharedThreadPools, ThreadPool


def test_e5_tasks_run_in_pool_threads_and_close_joins_them() -> None:
    pool = ThreadPool(2, "test")
    names: list[str] = []
    for _ in range(5):
        pool.schedule(lambda: names.append(threading.current_thread().name))
    pool.close()
    assert len(names) == 5
    assert set(names) <= {"test-0", "test-1"}


def test_s2_threads_start_on_demand_up_to_the_limit() -> None:
    pool = ThreadPool(2)
    assert pool.num_started == 0
    for _ in range(5):
        pool.schedule(lambda: None)
    assert pool.num_started == 2
    pool.close()
    assert pool.num_started == 0


def test_s2_zero_threads_means_the_number_of_processors() -> None:
    assert ThreadPool(0).num_threads >= 1


def test_s2_a_closed_pool_starts_no_thread() -> None:
    pool = ThreadPool(1)
    pool.close()
    pool.schedule(lambda: None)
    assert pool.num_started == 0


def test_s2_threads_end_with_a_collected_pool() -> None:
    pool = ThreadPool(2)
    results: list[int] = []
    for value in range(5):
        pool.schedule(lambda value=value: results.append(value))
    threads = list(pool._threads)
    del pool
    gc.collect()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(results) == list(range(5))


def test_s2_a_task_may_close_its_own_pool() -> None:
    pool = ThreadPool(1)
    closed = threading.Event()

    def task() -> None:
        pool.close()
        closed.set()

    pool.schedule(task)
    assert closed.wait(60)


def test_e5_overflow_is_a_value_in_the_pools_threads() -> None:
    pool = ThreadPool(1)
    results: list[float] = []
    pool.schedule(lambda: results.append(np.float32(1e38) * np.float32(10)))
    pool.close()
    assert results == [np.inf]


def test_s2_sessions_share_pools_by_name() -> None:
    pools = SharedThreadPools()
    assert pools.get("", 2) is pools.get("", 3)
    assert pools.get("named", 2) is pools.get("named", 2) is pools.get("named", 0)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"has 2 threads, but a session requests 3"
    ):
        pools.get("named", 3)


def test_e5_posted_calls_run_in_order_on_driving_thread() -> None:
    runner = StepRunner()
    calls: list[object] = []
    runner.post(lambda: calls.append("a"))
    runner.post(lambda: calls.append(threading.get_ident()))
    assert runner.has_posted
    runner.run_posted()
    assert calls == ["a", runner.owner]
    assert not runner.has_posted


def test_e5_the_driving_thread_waits_for_posts_of_others() -> None:
    runner = StepRunner()
    calls: list[int] = []
    thread = threading.Thread(target=lambda: runner.post(lambda: calls.append(1)))
    thread.start()
    runner.run_until(lambda: bool(calls))
    thread.join()
    assert calls == [1]


def test_e5_nothing_is_called_after_done() -> None:
    runner = StepRunner()
    runner.post(lambda: pytest.fail("called"))
    runner.run_until(lambda: True)
