"""Unbatch: return to each step of a batch its rows of the result.

Semantics: tensorflow/core/kernels/batch_kernels.cc. Nodes of the same name share their rows, across
steps and across sessions with the same resources. Each step passes the key (`id`) of its rows; one
of them also passes the batch, whose index has a row (key, start, end) for each step.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import (
    AlreadyExistsError,
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
)
from graphmill.spi import kernel
from graphmill.spi.process import fork_safe_lock, track_forks
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.functional._batch_scheduler import timer
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.errors import OpError
    from graphmill.spi import Cancellation, OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.functional._batch_scheduler import CallLater

    Done = Callable[..., None]


def _pieces(batch: Value, index: Value) -> list[tuple[int, Value]]:
    """Return the key and the rows of each step; the rows after them are padding.

    Only the length of each range of rows counts: the ranges follow one another.

    Raises:
        InvalidArgumentError: the index or the batch has the wrong shape.
    """
    if np.ndim(index) != 2 or index.shape[1] != 3:
        raise InvalidArgumentError(
            "Wrong shape for index tensor. Expected 2nd dimension size to be 3; got shape "
            f"{shape_text(np.shape(index))}"
        )
    sizes = index[:, 2] - index[:, 1]
    rows = len(batch) if np.ndim(batch) else 0
    if np.any(sizes < 0) or sizes.sum() > rows:
        raise InvalidArgumentError(
            f"batch_index describes rows of sizes {sizes.tolist()}, the batch has shape "
            f"{shape_text(np.shape(batch))}"
        )
    ends = np.cumsum(sizes)
    return [
        (key, batch[end - size : end])
        for key, size, end in zip(index[:, 0].tolist(), sizes.tolist(), ends.tolist(), strict=True)
    ]


class WaitingRows:
    """Rows whose steps have not requested them yet, and steps that wait for their rows.

    Args:
        timeout: the number of seconds for which rows and steps wait.
        call_later: starts a timer.
        clock: returns the time in seconds.

    Threads: `_lock` guards all state; no callback runs under it.
    """

    def __init__(
        self,
        timeout: float,
        call_later: CallLater = timer,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._timeout, self._call_later, self._clock = timeout, call_later, clock
        self._lock = fork_safe_lock()
        self._rows: dict[int, tuple[float, Value]] = {}
        self._steps: dict[int, Done] = {}
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Drop the waiting steps, which do not exist in this process."""
        self._steps.clear()

    def exchange(
        self,
        key: int,
        pieces: list[tuple[int, Value]],
        done: Done,
        cancellation: Cancellation | None,
    ) -> None:
        """Add rows, and call `done` with the rows of a key, now or later, or with an error.

        Raises:
            AlreadyExistsError: another step waits for the rows of this key, or there are already
                rows of one of the other keys.
        """
        with self._lock:
            self._drop_old_rows()
            self._check(key, pieces)
            _, rows = self._rows.pop(key, (0.0, None))
            if rows is None:
                self._steps[key] = done
            calls = self._add(pieces)
            waits = key in self._steps
        if rows is not None:
            done(rows)
        for call in calls:
            call()
        if waits:
            self._wait(key, done, cancellation)

    def _check(self, key: int, pieces: list[tuple[int, Value]]) -> None:
        if key in self._steps:
            raise AlreadyExistsError("Multiple session runs with the same batch key.")
        for other, _ in pieces:
            if other in self._rows and other != key:
                raise AlreadyExistsError("Multiple tensors returned for same batch key.")

    def _add(self, pieces: list[tuple[int, Value]]) -> list[Callable[[], None]]:
        """Store rows; return the calls that pass them to waiting steps."""
        calls: list[Callable[[], None]] = []
        deadline = self._clock() + self._timeout
        for key, rows in pieces:
            done = self._steps.pop(key, None)
            if done is None:
                self._rows[key] = deadline, rows
            else:
                calls.append(partial(done, rows))
        return calls

    def _drop_old_rows(self) -> None:
        now = self._clock()
        self._rows = {key: rows for key, rows in self._rows.items() if rows[0] > now}

    def _wait(self, key: int, done: Done, cancellation: Cancellation | None) -> None:
        """Start the timer of a step, and watch for its cancellation."""
        token = None
        if cancellation is not None:
            lost = CancelledError("the step was cancelled while it waited for its rows of a batch")
            token = cancellation.register(lambda: self._withdraw(key, lost))
            if token is None:
                self._withdraw(key, lost)
                return
        late = DeadlineExceededError("Batched data did not arrive within timeout window.")
        stop = self._call_later(self._timeout, lambda: self._withdraw(key, late))

        def finished(*results: Any, **error: Any) -> None:
            stop()
            if cancellation is not None:
                cancellation.deregister(token)
            done(*results, **error)

        with self._lock:
            waits = key in self._steps
            if waits:
                self._steps[key] = finished
        if not waits:  # another thread brought the rows, or the step was cancelled
            stop()
            if cancellation is not None:
                cancellation.deregister(token)

    def _withdraw(self, key: int, error: OpError) -> None:
        with self._lock:
            done = self._steps.pop(key, None)
        if done is not None:
            done(error=error)


@kernel("Unbatch", host=True, stateful=True, async_=True, effects=("clock", "state"))
class Unbatch:
    """Return the rows of one step from the batch that this or another step passes."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._key = resource_key(construction, is_shared_by_node_name=True)
        self._make = partial(WaitingRows, construction.attr("timeout_micros") / 1e6)

    def __call__(
        self,
        ctx: OpKernelContext,
        batched_tensor: Value,
        batch_index: Value,
        id: Value,  # noqa: A002 - the name of the op's input
        done: Done,
    ) -> None:
        """Add the rows of a batch, if any, and request those of this step."""
        if np.ndim(id):
            raise InvalidArgumentError(
                f"Expected `id` to be scalar. Received shape {shape_text(np.shape(id))}"
            )
        waiting = ctx.resources.lookup_or_create(*self._key, WaitingRows, self._make)
        has_batch = np.ndim(batch_index) != 2 or len(batch_index)
        pieces = _pieces(batched_tensor, batch_index) if has_batch else []
        waiting.exchange(int(id), pieces, done, ctx.wait(lambda: "its rows of a batch"))
