"""`Accumulator`: sum gradients until enough have arrived; independent of ops and graphs.

Semantics: tensorflow/core/kernels/conditional_accumulator_base.h, conditional_accumulator.h,
sparse_conditional_accumulator.h. A gradient of an older step than the accumulator's is dropped
silently.
"""

from __future__ import annotations

import itertools
import logging
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import cancellable
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.wait_queue import Waiter, WaitQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import Cancellation, Shape, Value

_log = logging.getLogger("graphmill.kernels")


class Accumulator(ABC):
    """A sum of gradients, and the callers waiting for it.

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

    def awaited(self, required: int) -> str:
        """Describe what a take waits for; without the lock, so the numbers are estimates."""
        return f"{required} gradients of accumulator '{self.name}' ({self._count} so far)"

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
        """Add a gradient, unless it is from an older step.

        Raises:
            InvalidArgumentError: its shape is incompatible.
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
        cancellation: Cancellation | None = None,
    ) -> None:
        """Call `done(result)` once `required` gradients have arrived, and reset the sum.

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
        if not any(waiter is waiting for waiter, _ in served):
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
        """Raise InvalidArgumentError unless a gradient has a compatible shape."""

    @abstractmethod
    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add a gradient to the sum, or set the sum to the first one."""

    @abstractmethod
    def result(self, count: int) -> Any:
        """Return the sum or mean of `count` gradients, and reset the sum."""


class DenseAccumulator(Accumulator):
    """A sum of tensors of one shape."""

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        super().__init__(name, dtype, shape, reduction)
        self._sum: Any = None

    def check(self, *gradient: Value) -> None:
        """Raise InvalidArgumentError unless the gradient has the expected shape."""
        (value,) = gradient
        if not is_compatible(self.shape, value.shape):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self.shape)}, got {shape_text(value.shape)}"
            )
        if self._count and value.shape != self._sum.shape:
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(self._sum.shape)}, the shape of earlier "
                f"gradients, got {shape_text(value.shape)}"
            )

    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add a gradient to the sum, or set the sum to the first one."""
        (value,) = gradient
        self._sum = np.array(value) if is_first else self._sum + value

    def result(self, count: int) -> Value:
        """Return the sum or mean, and reset the sum."""
        total, self._sum = self._sum, None
        return total if self.reduction == "SUM" else total / total.dtype.type(count)


class SparseAccumulator(Accumulator):
    """A sum of rows by index; the mean of a row is over the gradients that contain it."""

    def __init__(self, name: str, dtype: DType, shape: Shape, reduction: str) -> None:
        super().__init__(name, dtype, shape, reduction)
        self._indices: Any = None
        self._values: Any = None
        self._counts: Any = None

    def check(self, *gradient: Value) -> None:
        """Raise InvalidArgumentError for indices or rows of an unexpected shape."""
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
        static_rows = self.shape[0] if self.shape else -1
        if static_rows >= 0 and len(indices) and indices.max() >= static_rows:
            raise InvalidArgumentError(
                f"Shape mismatch: index {int(indices.max())} of a row exceeds the {static_rows} "
                f"rows of shape {shape_text(self.shape)}"
            )
        rows = self.shape[1:] if self.shape else None  # a scalar has no rows to check
        if self._count:
            rows = self._values.shape[1:]
        if not is_compatible(rows, values.shape[1:]):
            raise InvalidArgumentError(
                f"Shape mismatch: expected rows of shape {shape_text(rows)}, got "
                f"{shape_text(values.shape[1:])}"
            )

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Raise InvalidArgumentError unless a gradient's shape matches the static sizes."""
        expected = self.shape
        if expected is None:
            return
        if len(shape) < len(expected) or any(  # further sizes are not checked
            size not in (-1, actual) for size, actual in zip(expected, shape, strict=False)
        ):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shape_text(expected)}, got {list(shape)}"
            )

    def add(self, *gradient: Value, is_first: bool) -> None:
        """Add rows to those with equal indices, and insert the others in index order."""
        indices, values = gradient[:2]
        ones = np.ones(len(indices), np.int32)
        if is_first:
            self._indices, self._values, self._counts = np.array(indices), np.array(values), ones
            return
        left_at, right_at, length = _merged_positions(self._indices, indices)
        merged_indices = np.empty(length, self._indices.dtype)
        merged_indices[left_at], merged_indices[right_at] = self._indices, indices
        total = np.zeros((length, *values.shape[1:]), values.dtype)
        total[left_at] = self._values
        total[right_at] += values
        counts = np.zeros(length, np.int32)
        counts[left_at] = self._counts
        counts[right_at] += ones
        self._indices, self._values, self._counts = merged_indices, total, counts

    def result(self, count: int) -> tuple[Value, Value, Value]:
        """Return indices, rows and shape, and reset the sum."""
        del count
        values = self._values
        if self.reduction != "SUM":
            counts = self._counts.astype(values.dtype)
            values = values / counts.reshape(-1, *[1] * (values.ndim - 1))
        first = self.shape[0] if self.shape else -1
        shape = (first, *values.shape[1:])
        slices = (self._indices, values, np.array(shape, np.int64))
        self._indices = self._values = self._counts = None
        return slices


def _merged_positions(first: Value, second: Value) -> tuple[Any, Any, int]:
    """Return the positions of the elements of two lists in their merged list, and its length.

    Equal elements at the heads of both lists share a position. Lists that are unsorted or have
    duplicates are merged as they are, as in TensorFlow.
    """
    if np.all(np.diff(first) > 0) and np.all(np.diff(second) > 0):
        distinct, positions = np.unique(np.concatenate([first, second]), return_inverse=True)
        return positions[: len(first)], positions[len(first) :], len(distinct)
    left, right = ([*part.tolist(), math.inf] for part in (first, second))
    left_at: list[int] = []
    right_at: list[int] = []
    length = 0
    for _ in cancellable(itertools.count()):
        smallest = min(left[len(left_at)], right[len(right_at)])
        if smallest == math.inf:
            break
        for indices, merged in ((left, left_at), (right, right_at)):
            if indices[len(merged)] == smallest:
                merged.append(length)
        length += 1
    return np.array(left_at, np.intp), np.array(right_at, np.intp), length


def _finish(served: list[tuple[Waiter, Any]]) -> None:
    for waiting, result in served:
        waiting.leave()
        waiting.done(result)
