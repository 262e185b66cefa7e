"""Queues as objects: waiting, order, cancellation and closing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill_plugins.kernels.data_flow._queue import Dequeue, Enqueue, Queue
from graphmill_plugins.kernels.data_flow._queue_kinds import (
    FifoQueue,
    PriorityQueue,
    RandomShuffleQueue,
)

INT = (dtypes.int64,)


class Outcomes(dict[Any, Any]):
    """The outcome of each operation: elements, None, or the class of the error."""

    def done(self, key: Any):
        def note(elements: Any, error: Any) -> None:
            assert key not in self, "done was called twice"
            taken = None if elements is None else [int(element[0]) for element in elements]
            self[key] = taken if error is None else type(error)

        return note


def elements(*values: int) -> list[tuple[Any]]:
    return [(np.int64(value),) for value in values]


def put(queue: Queue, outcomes: Outcomes, key: Any, *values: int, cancellation: Any = None) -> Any:
    attempt = Enqueue(elements(*values), outcomes.done(key))
    queue.submit(attempt, cancellation)
    return attempt


def take(
    queue: Queue,
    outcomes: Outcomes,
    key: Any,
    count: int = 1,
    *,
    allow_fewer: bool = False,
    cancellation: Any = None,
) -> Any:
    attempt = Dequeue(count, outcomes.done(key), allow_fewer=allow_fewer)
    queue.submit(attempt, cancellation)
    return attempt


def test_a_dequeue_waits_for_an_element():
    queue, outcomes = FifoQueue("q", INT), Outcomes()
    take(queue, outcomes, "get")
    assert outcomes == {}
    put(queue, outcomes, "put", 5)
    assert outcomes == {"put": None, "get": [5]}


def test_an_enqueue_waits_for_room():
    queue, outcomes = FifoQueue("q", INT, capacity=1), Outcomes()
    put(queue, outcomes, "many", 1, 2, 3)
    assert (outcomes, queue.size) == ({}, 1)
    take(queue, outcomes, "get", 2)
    assert (outcomes, queue.size) == ({"get": [1, 2], "many": None}, 1)


def test_dequeues_are_served_fifo():
    queue, outcomes = FifoQueue("q", INT), Outcomes()
    take(queue, outcomes, "two", 2)
    take(queue, outcomes, "one")
    put(queue, outcomes, "a", 1)
    assert "one" not in outcomes, "the first in line waits for its second element"
    put(queue, outcomes, "b", 2, 3)
    assert outcomes == {"a": None, "two": [1, 2], "one": [3], "b": None}


def test_cancelled_enqueue_keeps_enqueued_elements():
    queue, outcomes = FifoQueue("q", INT, capacity=2), Outcomes()
    attempt = put(queue, outcomes, "many", 1, 2, 3)
    queue.cancel(attempt)
    assert outcomes == {"many": errors.CancelledError}
    take(queue, outcomes, "get", 2)
    assert outcomes["get"] == [1, 2]


def test_a_cancelled_attempt_lets_the_next_one_through():
    queue, outcomes = FifoQueue("q", INT), Outcomes()
    attempt = take(queue, outcomes, "two", 2)
    take(queue, outcomes, "one")
    queue.cancel(attempt)
    put(queue, outcomes, "put", 7)
    assert outcomes == {"two": errors.CancelledError, "put": None, "one": [7]}


def test_cancelling_after_the_end_does_nothing():
    queue, outcomes = FifoQueue("q", INT), Outcomes()
    queue.cancel(put(queue, outcomes, "put", 1))
    assert (outcomes, queue.size) == ({"put": None}, 1)


def test_step_cancellation_wakes_waiters():
    queue, outcomes, step = FifoQueue("q", INT, capacity=0), Outcomes(), CancellationManager()
    take(queue, outcomes, "get", cancellation=step)
    put(queue, outcomes, "put", 1, cancellation=step)
    assert outcomes == {}
    step.start_cancel()
    assert outcomes == {"get": errors.CancelledError, "put": errors.CancelledError}


def test_a_cancelled_step_does_not_wait():
    queue, outcomes, step = FifoQueue("q", INT), Outcomes(), CancellationManager()
    step.start_cancel()
    take(queue, outcomes, "get", cancellation=step)
    assert outcomes == {"get": errors.CancelledError}


def test_finished_waits_are_removed_from_the_step():
    queue, outcomes, step = FifoQueue("q", INT), Outcomes(), CancellationManager()
    take(queue, outcomes, "get", cancellation=step)
    put(queue, outcomes, "put", 1, cancellation=step)
    assert not step._callbacks
    step.start_cancel()
    assert outcomes == {"get": [1], "put": None}


def test_closing_waits_for_the_enqueues_before_it():
    queue, outcomes = FifoQueue("q", INT, capacity=1), Outcomes()
    put(queue, outcomes, "many", 1, 2)
    queue.close(outcomes.done("close"))
    put(queue, outcomes, "late", 3)
    assert (outcomes, queue.is_closed) == ({}, False)
    take(queue, outcomes, "get", 2)
    assert outcomes == {
        "many": None,
        "close": None,
        "late": errors.CancelledError,
        "get": [1, 2],
    }


def test_closing_with_cancellation_does_not_wait():
    queue, outcomes = FifoQueue("q", INT, capacity=1), Outcomes()
    put(queue, outcomes, "many", 1, 2)
    queue.close(outcomes.done("close"), cancel_pending=True)
    assert outcomes == {"many": errors.CancelledError, "close": None}
    take(queue, outcomes, "get")
    take(queue, outcomes, "empty")
    assert (outcomes["get"], outcomes["empty"]) == ([1], errors.OutOfRangeError)


def test_closing_wakes_the_dequeues_that_wait():
    queue, outcomes = FifoQueue("q", INT), Outcomes()
    put(queue, outcomes, "put", 1)
    take(queue, outcomes, "two", 2)
    take(queue, outcomes, "rest", 2, allow_fewer=True)
    queue.close(outcomes.done("close"))
    assert outcomes["two"] is errors.OutOfRangeError
    assert outcomes["rest"] == [1], "what the first had taken went back"


def test_errors_name_the_queue_and_its_size():
    queue, seen = FifoQueue("letters", INT), []
    queue.close(lambda *_: None)
    queue.submit(Dequeue(3, lambda _, error: seen.append(error)))
    assert "FIFOQueue 'letters' is closed and has insufficient elements" in str(seen[0])
    assert "(requested 3, current size 0)" in str(seen[0])


def test_shuffle_queue_keeps_minimum_until_closed():
    queue = RandomShuffleQueue("q", INT, numbers=iter([0, 0, 0]), min_after_dequeue=2)
    outcomes = Outcomes()
    put(queue, outcomes, "put", 1, 2, 3)
    take(queue, outcomes, "a")
    take(queue, outcomes, "b")
    assert outcomes == {"put": None, "a": [1]}
    queue.close(outcomes.done("close"))
    assert outcomes["b"] == [3], "the last element fills the place of the first"


def test_a_priority_queue_gives_the_smallest_first():
    queue, outcomes = PriorityQueue("q", INT), Outcomes()
    put(queue, outcomes, "put", 3, 1, 2)
    take(queue, outcomes, "get", 3)
    assert outcomes["get"] == [1, 2, 3]


def test_priority_queue_waits_for_enough_elements():
    queue, outcomes = PriorityQueue("q", INT), Outcomes()
    put(queue, outcomes, "put", 3)
    cancelled = take(queue, outcomes, "cancelled", 2)
    queue.cancel(cancelled)
    assert queue.size == 1
    take(queue, outcomes, "get", 2)
    put(queue, outcomes, "later", 1)
    assert outcomes["get"] == [1, 3]


class Model:
    """A reference model of a FIFO queue, single-threaded."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.is_closed = False
        self.held: list[int] = []
        self.puts: list[dict[str, Any]] = []
        self.takes: list[dict[str, Any]] = []
        self.outcomes: dict[Any, Any] = {}

    def settle(self) -> None:
        while self._settle_put() or self._settle_take():
            pass

    def _end(self, line: list[dict[str, Any]], outcome: Any) -> bool:
        self.outcomes[line.pop(0)["key"]] = outcome
        return True

    def _settle_put(self) -> bool:
        if not self.puts:
            return False
        first = self.puts[0]
        if first["what"] == "close":
            outcome = errors.CancelledError if self.is_closed else None
            self.is_closed = True
            return self._end(self.puts, outcome)
        if self.is_closed:
            return self._end(self.puts, errors.CancelledError)
        if not first["values"]:
            return self._end(self.puts, None)
        if len(self.held) < self.capacity:
            self.held.append(first["values"].pop(0))
            return True
        return False

    def _settle_take(self) -> bool:
        if not self.takes:
            return False
        first = self.takes[0]
        missing = first["count"] - len(first["taken"])
        if not missing:
            return self._end(self.takes, first["taken"])
        if self.is_closed and len(self.held) < missing:
            self.held[:0] = first["taken"]
            first["taken"] = []
            if not first["fewer"] or not self.held:
                return self._end(self.takes, errors.OutOfRangeError)
            first["count"] = len(self.held)
            return True
        if self.held:
            first["taken"].append(self.held.pop(0))
            return True
        return False

    def cancel(self, key: Any) -> None:
        for line in (self.puts, self.takes):
            for waiting in line:
                if waiting["key"] == key:
                    line.remove(waiting)
                    self.outcomes[key] = errors.CancelledError
                    return

    def close_now(self, key: Any) -> None:
        self.is_closed = True
        for waiting in list(self.puts):
            self.cancel(waiting["key"])
        self.outcomes[key] = None


_actions = st.one_of(
    st.tuples(st.just("put"), st.integers(1, 4)),
    st.tuples(st.just("put"), st.integers(1, 4)),
    st.tuples(st.just("take"), st.integers(1, 4)),
    st.tuples(st.just("take"), st.integers(1, 4)),
    st.tuples(st.just("take up to"), st.integers(1, 4)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("close"), st.just(0)),
    st.tuples(st.just("close now"), st.just(0)),
)


@example(1, [("put", 1), ("put", 1), ("put", 1), ("close", 0), ("cancel", 3)])
@given(st.integers(1, 4), st.lists(_actions, max_size=25))
def test_a_queue_behaves_like_its_model(capacity, actions):
    queue, outcomes, model = FifoQueue("q", INT, capacity=capacity), Outcomes(), Model(capacity)
    attempts: dict[int, Any] = {}
    for key, (what, number) in enumerate(actions):
        if what == "put":
            values = [10 * key + index for index in range(number)]
            model.puts.append({"key": key, "what": what, "values": values.copy()})
            attempts[key] = put(queue, outcomes, key, *values)
        elif what.startswith("take"):
            fewer = what == "take up to"
            model.takes.append({"key": key, "count": number, "fewer": fewer, "taken": []})
            attempts[key] = take(queue, outcomes, key, number, allow_fewer=fewer)
        elif what == "cancel":
            if number in attempts:  # a close that waits can't be cancelled
                model.cancel(number)
                queue.cancel(attempts[number])
        elif what == "close":
            model.puts.append({"key": key, "what": what})
            queue.close(outcomes.done(key))
        else:
            model.close_now(key)
            queue.close(outcomes.done(key), cancel_pending=True)
        model.settle()
        assert outcomes == model.outcomes
        assert queue.size == len(model.held)
        assert queue.is_closed == model.is_closed


def test_elements_are_put_and_taken_together_or_not_at_all() -> None:
    queue, outcomes = FifoQueue("q", INT, capacity=3), Outcomes()
    assert queue.take_many_now(1) is None
    assert queue.put_now((1,), (2,))
    assert not queue.put_now((3,), (4,))
    assert queue.take_many_now(3) is None
    assert queue.take_many_now(2) == [(1,), (2,)]
    take(queue, outcomes, "first", 2)
    assert not queue.put_now((5,), (6,))  # it would overtake the dequeue that waits
    put(queue, outcomes, "put", 5, 6, 7)
    assert outcomes["first"] == [5, 6]
    put(queue, outcomes, "waits", 8, 9, 10)
    assert queue.take_many_now(1) is None  # the enqueue that waits has room first
    queue.close(outcomes.done("closed"), cancel_pending=True)
    assert not queue.put_now((11,))


@pytest.mark.parametrize("least", [-1, 4])
def test_shuffle_queue_minimum_must_fit_capacity(least):
    with pytest.raises(errors.InvalidArgumentError, match="min_after_dequeue"):
        RandomShuffleQueue("q", INT, None, 4, numbers=iter(()), min_after_dequeue=least)


def test_closed_priority_queue_gives_its_last_elements() -> None:
    """TensorFlow drops these elements (docs/explanation/differences.md)."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.priority_queue_v2(component_types=["float32"], shapes=[[]])
        three = ops.array.const(value=np.int32(3), dtype="int32")
        puts = [
            ops.data_flow.queue_enqueue_v2(
                queue,
                [
                    ops.array.const(value=np.int64(rank), dtype="int64"),
                    ops.array.const(value=np.float32(-rank), dtype="float32"),
                ],
            )
            for rank in (4, 2)
        ]
        close = ops.data_flow.queue_close_v2(queue)
        rest = ops.data_flow.queue_dequeue_up_to_v2(
            queue, three, component_types=["int64", "float32"]
        )
    with graphmill.Session(graph=graph) as session:
        for put in puts:
            session.run([], targets=[put])
        session.run([], targets=[close])
        ranks, values = session.run(list(rest))
        assert (ranks.tolist(), values.tolist()) == ([2, 4], [-2.0, -4.0])
        with pytest.raises(errors.OutOfRangeError):
            session.run(list(rest))
