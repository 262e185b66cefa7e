"""BatchFunction: sharing of batches, timeouts and cancelled calls."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.errors import CancelledError, InvalidArgumentError, UnavailableError
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph
from graphmill.testing.timeouts import no_leaked_threads
from graphmill_plugins.kernels.functional._batch_scheduler import Batcher, Rows, timer

TIMEOUT_SECONDS = 60
FOREVER = 2_000 * 1_000_000
ROWS = """
[[BatchFunction]]
feed = {{ x = "float32[4]" }}
functions = ["f(x: float32) -> (int32): n = Shape(x); a = BroadcastTo(n, n); return a"]
nodes = ["y = OP([x], [], f=f, Tin=[float32], Tcaptured=[], Tout=[int32], num_batch_threads=1, \
max_batch_size={most}, batch_timeout_micros={wait}, enable_large_batch_splitting={split})"]
run = ["y"]
"""


def session(host: Any, most: int, wait: int = FOREVER, *, split: bool = False) -> Any:
    """Return a session whose node returns for each row the number of rows in its batch."""
    (case,) = parse_cases(ROWS.format(most=most, wait=wait, split=split), "t")
    graph = case_graph(case, host.ops)
    return graphmill.Session(graph=graph.graph_def, host=host), next(iter(graph.feeds))


def test_callers_in_two_threads_share_a_batch(graphmill_host):
    running, x = session(graphmill_host, 8)
    with running, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(running.run, "y:0", {x: np.ones(n, np.float32)}) for n in (3, 5)]
        assert [call.result().tolist() for call in calls] == [[8] * 3, [8] * 5]


def test_single_caller_runs_at_its_timeout(graphmill_host):
    running, x = session(graphmill_host, 8, 1000)
    with running:
        assert running.run("y:0", {x: np.ones(3, np.float32)}).tolist() == [3, 3, 3]


def test_rows_that_are_too_many_are_split(graphmill_host):
    running, x = session(graphmill_host, 4, 0, split=True)
    with running:
        assert running.run("y:0", {x: np.ones(10, np.float32)}).tolist() == [4] * 8 + [2] * 2


def test_rows_of_other_shapes_fail_together(graphmill_host):
    running, x = session(graphmill_host, 2)
    shapes = ((1,), (1, 2))
    with running, ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(running.run, "y:0", {x: np.ones(s, np.float32)}) for s in shapes]
        for call in calls:
            with pytest.raises(InvalidArgumentError, match="should match"):
                call.result()


class Clock:
    """Timers that the test fires."""

    def __init__(self):
        self.waiting = []

    def __call__(self, seconds, call):
        self.waiting.append(call)
        return lambda: self.waiting.remove(call) if call in self.waiting else None

    def ring(self):
        self.waiting.pop(0)()


@pytest.fixture
def clock():
    return Clock()


def rows(count, ran, ends=None):
    return Rows(count, [], lambda batch: ran.append(batch.count), (ends or [].append))


def test_a_batch_waits_for_its_time(clock):
    ran = []
    batcher = Batcher(1, 8, 1.0, 10, clock)
    batcher.submit("", rows(3, ran), None)
    batcher.submit("", rows(2, ran), None)
    assert ran == []
    clock.ring()
    assert ran == [5]


def test_a_full_batch_needs_no_timer(clock):
    ran = []
    batcher = Batcher(1, 4, 1.0, 10, clock)
    for _ in range(4):
        batcher.submit("", rows(1, ran), None)
    assert (ran, clock.waiting) == ([4], [])


def test_overflow_dispatches_the_batch(clock):
    ran = []
    batcher = Batcher(1, 4, 1.0, 10, clock)
    batcher.submit("", rows(3, ran), None)
    batcher.submit("", rows(2, ran), None)
    assert ran == [3]


def test_queues_do_not_mix(clock):
    ran = []
    batcher = Batcher(2, 4, 1.0, 10, clock)
    batcher.submit("a", rows(2, ran), None)
    batcher.submit("b", rows(2, ran), None)
    assert ran == []
    clock.ring()
    clock.ring()
    assert ran == [2, 2]


def test_only_so_many_run_and_wait(clock):
    ran = []
    batcher = Batcher(1, 2, 0.0, 1, clock)
    batcher.submit("", rows(2, ran), None)
    batcher.submit("", rows(2, ran), None)
    assert ran == [2]
    with pytest.raises(UnavailableError, match="is full"):
        batcher.submit("", rows(2, ran), None)
    batcher.ended()
    assert ran == [2, 2]


def test_rows_of_a_cancelled_step_are_removed(clock):
    ran, ends = [], []
    step = CancellationManager()
    batcher = Batcher(1, 8, 1.0, 10, clock)
    batcher.submit("", Rows(3, [], ran.append, lambda error: ends.append(error)), step)
    batcher.submit("", rows(2, ran), None)
    step.start_cancel(CancelledError("over"))
    assert isinstance(ends[0], CancelledError)
    clock.ring()
    assert ran == [2]


def test_a_batch_without_members_is_removed(clock):
    ran = []
    step = CancellationManager()
    batcher = Batcher(1, 8, 1.0, 10, clock)
    batcher.submit("", Rows(3, [], ran.append, lambda error: None), step)
    step.start_cancel(CancelledError("over"))
    assert (ran, clock.waiting) == ([], [])


def test_timers_are_cleaned_up(graphmill_host):
    running, x = session(graphmill_host, 4)
    with no_leaked_threads(), running:
        running.run("y:0", {x: np.ones(4, np.float32)})


def test_longest_timeout_of_an_attr_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread cannot wait as many seconds as `batch_timeout_micros` can hold."""
    failed: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    stop = timer((2**63 - 1) / 1e6, lambda: None)
    stop()
    stop.__self__.join(TIMEOUT_SECONDS)
    assert failed == []
