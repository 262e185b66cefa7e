"""Batch and Unbatch: one of several steps computes on all rows, and each receives its own rows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill_plugins.kernels.functional.unbatch import WaitingRows

FOREVER = 2_000 * 1_000_000


@pytest.fixture
def batched(graphmill_host):
    """A session that doubles rows of which eight are one batch, and the names of its tensors."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = ops.array.placeholder(dtype="float32")
        batch, index, key = ops.functional.batch(
            [x],
            num_batch_threads=1,
            max_batch_size=8,
            batch_timeout_micros=FOREVER,
            grad_timeout_micros=0,
        )
        doubled = ops.math.add_v2(batch[0], batch[0])
        y = ops.functional.unbatch(doubled, index, key, timeout_micros=FOREVER)
    with graphmill.Session(graph=graph, host=graphmill_host) as session:
        yield session, x, y, [doubled, index, key]


def test_each_caller_gets_its_own_rows_back(batched):
    session, x, y, _ = batched
    batches = [np.full((count, 2), count, np.float32) for count in (3, 5)]
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(session.run, y, {x: rows}) for rows in batches]
        for call, rows in zip(calls, batches, strict=True):
            np.testing.assert_array_equal(call.result(), rows * 2)


def test_only_one_caller_gets_the_batch(batched):
    session, x, _, fetches = batched
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(session.run, fetches, {x: np.full((count, 2), count, np.float32)})
            for count in (3, 5)
        ]
        results = sorted((call.result() for call in calls), key=lambda found: len(found[0]))
    (rows, no_index, key), (batch, index, last) = results
    assert (rows.shape, no_index.shape, batch.shape) == ((0, 2), (0, 3), (8, 2))
    assert index[:, 0].tolist() == [key, last]
    assert index[0, 1:].tolist() == [0, index[1, 1]]
    assert index[1, 2] == 8


def test_rows_of_other_shapes_fail_together(batched):
    session, x, y, _ = batched
    with ThreadPoolExecutor(2) as pool:
        calls = [pool.submit(session.run, y, {x: np.ones((4, n), np.float32)}) for n in (1, 2)]
        for call in calls:
            with pytest.raises(InvalidArgumentError, match="should match"):
                call.result()


class Clock:
    """A clock and timers that a test advances."""

    def __init__(self):
        self.now = 0.0
        self.timers = []

    def __call__(self):
        return self.now

    def later(self, seconds, call):
        self.timers.append(call)
        return lambda: self.timers.remove(call)


class Answers(list):
    """Collects the results that `done` of each step receives."""

    def done(self, rows=None, error=None):
        self.append(rows if error is None else type(error))


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def waiting(clock):
    return WaitingRows(5.0, clock.later, clock)


def test_a_step_waits_for_its_rows(waiting, clock):
    found = Answers()
    waiting.exchange(7, [], found.done, None)
    assert (found, len(clock.timers)) == ([], 1)
    waiting.exchange(8, [(7, "rows"), (8, "own")], found.done, None)
    assert (found, clock.timers) == (["rows", "own"], [])


def test_a_step_that_waits_too_long_fails(waiting, clock):
    found = Answers()
    waiting.exchange(7, [], found.done, None)
    clock.timers[0]()
    assert found == [DeadlineExceededError]


def test_unrequested_rows_are_dropped(waiting, clock):
    found = Answers()
    waiting.exchange(8, [(7, "rows"), (8, "own")], found.done, None)
    clock.now = 6.0
    waiting.exchange(7, [], found.done, None)
    assert (found, len(clock.timers)) == (["own"], 1)


def test_two_steps_must_not_share_a_key(waiting):
    found = Answers()
    waiting.exchange(7, [], found.done, None)
    with pytest.raises(AlreadyExistsError, match="same batch key"):
        waiting.exchange(7, [], found.done, None)


def test_two_batches_must_not_have_rows_of_one_key(waiting):
    found = Answers()
    waiting.exchange(8, [(7, "rows"), (8, "own")], found.done, None)
    with pytest.raises(AlreadyExistsError, match="same batch key"):
        waiting.exchange(9, [(7, "others"), (9, "own")], found.done, None)


@pytest.mark.parametrize("is_early", [True, False])
def test_cancelled_step_stops_waiting(waiting, clock, is_early):
    found, step = Answers(), CancellationManager()
    if is_early:
        step.start_cancel(CancelledError("over"))
    waiting.exchange(7, [], found.done, step)
    step.start_cancel(CancelledError("over"))
    assert (found, clock.timers) == ([CancelledError], [])
