"""`Accumulator`: takers are served in order, can be cancelled and see complete sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill_plugins.kernels.data_flow._accumulator import DenseAccumulator, SparseAccumulator


class Taker:
    """The results of `take`."""

    def __init__(self) -> None:
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def __call__(self, result: Any = None, error: BaseException | None = None) -> None:
        self.error = error
        if error is None:
            self.results.append(result)


def value(number: float) -> Any:
    return np.array([number], np.float32)


@pytest.fixture
def accumulator() -> DenseAccumulator:
    return DenseAccumulator("a", dtypes.float32, (1,), "SUM")


def test_takers_are_served_fifo(accumulator: DenseAccumulator) -> None:
    first, second = Taker(), Taker()
    accumulator.take(2, first)
    accumulator.take(1, second)
    accumulator.apply(0, value(1))
    assert not first.results
    assert not second.results
    accumulator.apply(0, value(2))
    assert [result.tolist() for result in first.results] == [[3]]
    accumulator.apply(1, value(5))
    assert [result.tolist() for result in second.results] == [[5]]


def test_take_increments_step_and_drops_stale_gradients(
    accumulator: DenseAccumulator,
) -> None:
    accumulator.apply(0, value(1))
    accumulator.take(1, Taker())
    accumulator.apply(0, value(7))
    assert accumulator.count == 0


def test_cancelled_waiter_leaves_the_queue(accumulator: DenseAccumulator) -> None:
    first, second, cancellation = Taker(), Taker(), CancellationManager()
    accumulator.take(1, first, cancellation)
    accumulator.take(1, second)
    cancellation.start_cancel()
    assert isinstance(first.error, errors.CancelledError)
    accumulator.apply(0, value(4))
    assert not first.results
    assert second.results


def test_already_cancelled_taker_fails_immediately(accumulator: DenseAccumulator) -> None:
    taker, cancellation = Taker(), CancellationManager()
    cancellation.start_cancel()
    accumulator.take(1, taker, cancellation)
    assert isinstance(taker.error, errors.CancelledError)


def test_applied_gradient_is_not_modified(accumulator: DenseAccumulator) -> None:
    gradient, taker = value(1), Taker()
    accumulator.apply(0, gradient)
    accumulator.apply(0, value(2))
    accumulator.take(2, taker)
    assert gradient.tolist() == [1]


def test_row_mean_counts_only_gradients_with_that_row() -> None:
    accumulator, taker = SparseAccumulator("s", dtypes.float32, (4, 1), "MEAN"), Taker()
    shape = np.array([4, 1])
    accumulator.apply(0, np.array([0, 2]), np.array([[1], [2]], "f"), shape, True)
    accumulator.apply(0, np.array([2, 3]), np.array([[4], [5]], "f"), shape, True)
    accumulator.take(2, taker)
    indices, values, found = taker.results[0]
    assert indices.tolist() == [0, 2, 3]
    assert values.tolist() == [[1], [3], [5]]
    assert found.tolist() == [4, 1]
