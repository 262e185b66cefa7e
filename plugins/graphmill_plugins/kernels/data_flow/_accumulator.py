"""`Accumulator`: sum gradients until enough have arrived; independent of ops and graphs.

Semantics: tensorflow/core/kernels/conditional_accumulator_base.h, conditional_accumulator.h,
sparse_conditional_accumulator.h. A gradient of an older step than the accumulator's is dropped
without a word.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.wait_queue import Waiter, WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import CancellationManager, Shape, Value

_log = logging.getLogger("graphmill.kernels")


class Accumulator(ABC):
    """A sum of gradients, and the callers that wait for it.

    Threads: `_lock` guards everything; callbacks run outside it.

    Attributes:
        name: for messages.
        dtype: element type of the gradients.
        shape: their static shape.
        reduction: "MEAN" or "SUM".
    """

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        self.name = name
        self.dtype = dtype
        self.shape = shape
        self.reduction = reduction
        self._lock = fork_safe_lock()
        self._waiters = WaitQueue(self._lock, "TakeGrad operation")
        self._count = 0
        self._step = 0

    @property
    def count(self) -> int:
        """The number of gradients in the sum."""
        with self._lock:
            return self._count

    def set_step(self, step: int) -> None:
        """Set the step; gradients of older steps are dropped from now on."""
        with self._lock:
            if step < self._step:
                _log.warning(
                    "accumulator %s: global step set back from %d to %d",
                    *(self.name, self._step, step),
                )
            self._step = step

    def apply(self, step: int, *gradient: Value) -> None:
        """Add a gradient, unless it is of an older step.

        Raises:
            InvalidArgumentError: its shape does not fit.
        """
        with self._lock:
            if step < self._step:
                return
            self.check(*gradient)
            self.add(*gradient, is_first=self._count == 0)
            self._count += 1
            served = self._serve()
        _finish(served)

    def take(
        self,
        required: int,
        done: Callable[..., None],
        cancellation: CancellationManager | None = None,
    ) -> None:
        """Call `done(result)` when there are `required` gradients, and start again.

        Raises:
            InvalidArgumentError: `required` is not positive.
        """
        if required <= 0:
            raise InvalidArgumentError(
                f"Argument num_required must be positive, got {required} for accumulator "
                f"{self.name!r}"
            )
        waiting = Waiter(done, required)
        with self._lock:
            self._waiters.join(waiting)
            served = self._serve()
        _finish(served)
        if not any(one is waiting for one, _ in served):
            self._waiters.watch(waiting, cancellation)

    def _serve(self) -> list[tuple[Waiter, Any]]:
        served = []
        while (first := self._waiters.first) is not None and self._count >= first.request:
            self._step += 1
            served.append((self._waiters.served(), self.result(self._count)))
            self._count = 0
        return served

    @abstractmethod
    def check(self, *gradient: Value) -> None:
        """Check the shape of a gradient; raise InvalidArgumentError."""

    @abstractmethod
    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add a gradient to the sum, or start a sum with it."""

    @abstractmethod
    def result(self, count: int) -> Any:
        """Return sum or mean."""


class DenseAccumulator(Accumulator):
    """A sum of tensors of one shape."""

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        super().__init__(name, dtype, shape, reduction)
        self._sum: Any = None

    def check(self, *gradient: Value) -> None:
        """Check that it has the shape."""
        (value,) = gradient
        if not is_compatible(self.shape, value.shape):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self.shape)}, got {shape_text(value.shape)}"
            )
        if self._count and value.shape != self._sum.shape:
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self._sum.shape)}, as gradients before, got "
                f"{shape_text(value.shape)}"
            )

    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add it."""
        (value,) = gradient
        self._sum = np.array(value) if is_first else self._sum + value

    def result(self, count: int) -> Value:
        """Return sum or mean."""
        total, self._sum = self._sum, None
        return total if self.reduction == "SUM" else total / total.dtype.type(count)


class SparseAccumulator(Accumulator):
    """A sum of rows; the mean of a row is over the gradients that contain it."""

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        super().__init__(name, dtype, shape, reduction)
        self._indices: Any = None
        self._values: Any = None
        self._counts: Any = None

    def check(self, *gradient: Value) -> None:
        """Check that indices and rows belong together and fit."""
        indices, values, shape, has_known_shape = gradient
        if indices.ndim != 1:
            raise InvalidArgumentError(
                f"Input indices should be vector but received shape: {shape_text(indices.shape)}"
            )
        if values.ndim < 1 or len(values) != len(indices):
            raise InvalidArgumentError(
                f"Number of values and indices must be the same: shape {shape_text(values.shape)} "
                f"of the values, {len(indices)} indices"
            )
        if has_known_shape:
            self._check_shape(tuple(shape.ravel().tolist()))
        rows_before = self.shape[0] if self.shape else -1
        if rows_before >= 0 and len(indices) and indices.max() >= rows_before:
            raise InvalidArgumentError(
                f"Shape mismatch: index {int(indices.max())} of a row exceeds the {rows_before} "
                f"rows of shape {shape_text(self.shape)}"
            )
        rows = self.shape[1:] if self.shape else None  # a scalar's rows are not looked at
        if self._count:
            rows = self._values.shape[1:]
        if not is_compatible(rows, values.shape[1:]):
            raise InvalidArgumentError(
                f"Shape mismatch: expected rows of shape {shape_text(rows)}, got "
                f"{shape_text(values.shape[1:])}"
            )

    def _check_shape(self, given: tuple[int, ...]) -> None:
        """Raise InvalidArgumentError unless a gradient's shape has the sizes that are known."""
        wanted = self.shape
        if wanted is None:
            return
        if len(given) < len(wanted) or any(  # what comes after those is not looked at
            size not in (-1, one) for size, one in zip(wanted, given, strict=False)
        ):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(wanted)}, got {list(given)}"
            )

    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add rows to those with equal indices, and insert the others in order."""
        indices, values = gradient[:2]
        ones = np.ones(len(indices), np.int32)
        if is_first:
            self._indices, self._values, self._counts = np.array(indices), np.array(values), ones
            return
        mine, theirs, length = _places(self._indices, indices)
        found = np.empty(length, self._indices.dtype)
        found[mine], found[theirs] = self._indices, indices
        total = np.zeros((length, *values.shape[1:]), values.dtype)
        total[mine] = self._values
        total[theirs] += values
        counts = np.zeros(length, np.int32)
        counts[mine] = self._counts
        counts[theirs] += ones
        self._indices, self._values, self._counts = found, total, counts

    def result(self, count: int) -> tuple[Value, Value, Value]:
        """Return indices, rows and shape."""
        del count
        values = self._values
        if self.reduction != "SUM":
            counts = self._counts.astype(values.dtype)
            values = values / counts.reshape(-1, *[1] * (values.ndim - 1))
        first = self.shape[0] if self.shape else -1
        shape = (first, *values.shape[1:])
        found = (self._indices, values, np.array(shape, np.int64))
        self._indices = self._values = self._counts = None
        return found


def _places(first: Value, second: Value) -> tuple[Any, Any, int]:
    """Return where the elements of two lists go in the list merged of them, and how long it is.

    Elements that meet in the merge share a place. Lists that are not in order, or have a number
    twice, are merged as they are, as TensorFlow does.
    """
    if np.all(np.diff(first) > 0) and np.all(np.diff(second) > 0):
        found, places = np.unique(np.concatenate([first, second]), return_inverse=True)
        return places[: len(first)], places[len(first) :], len(found)
    ones, others = ([*part.tolist(), math.inf] for part in (first, second))
    mine: list[int] = []
    theirs: list[int] = []
    place = 0
    while (least := min(ones[len(mine)], others[len(theirs)])) < math.inf:
        for numbers, into in ((ones, mine), (others, theirs)):
            if numbers[len(into)] == least:
                into.append(place)
        place += 1
    return np.array(mine, np.intp), np.array(theirs, np.intp), place


def _finish(served: list[tuple[Waiter, Any]]) -> None:
    for waiting, result in served:
        waiting.leave()
        waiting.done(result)
