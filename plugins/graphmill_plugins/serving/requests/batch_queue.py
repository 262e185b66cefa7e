"""`BatchQueue`: the queue of requests to one signature, which combines them into batches.

A batch takes the requests that have arrived while earlier ones ran: a lone request never waits for
others (unless `max_wait_seconds` says so), and batches grow with the load.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import (
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnavailableError,
)
from graphmill_plugins.serving.requests.queued_request import QueuedRequest
from graphmill_plugins.serving.requests.run_times import RunTimes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from graphmill_plugins.serving.models.served_signature import Arrays
    from graphmill_plugins.serving.requests.batching_options import BatchingOptions

    Run = Callable[[Arrays, tuple[str, ...]], Arrays]


_MAX_SHAPES: Final = 256
"""Maximum number of shapes whose runs are counted and timed."""
_ITERATION_SECONDS: Final = 0.005
"""Seconds for which models may run in the event loop's thread in one of its iterations."""
_LONE_BATCHES: Final = 16
"""The number of consecutive batches of one request after which requests are run alone."""


class BatchQueue:
    """The queue of one signature.

    Args:
        name: that of the signature and its model, for errors.
        run: runs the signature in a thread of `executor`.
        options: the sizes and waits.
        executor: has at least `options.num_threads` threads.
        on_batch: is called with the number of rows of each batch that ran.
        may_wait: whether a run may block on something other than computation, such as a queue.

    Threads: all methods are for the thread of the event loop.
    """

    def __init__(
        self,
        name: str,
        run: Run,
        options: BatchingOptions,
        executor: Executor,
        on_batch: Callable[[int], None],
        *,
        may_wait: bool = True,
    ) -> None:
        self._name = name
        self._run = run
        self._options = options
        self._executor = executor
        self._on_batch = on_batch
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[QueuedRequest] = deque()
        self._running = 0
        self._in_progress: set[QueuedRequest] = set()
        self._is_scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed: OpError | None = None
        self._may_wait = may_wait
        self._times: dict[Any, RunTimes] = {}
        self._iteration_end: float | None = None
        """The time to stop running models in this iteration of the event loop, or None."""
        self._lone_batches = 0
        """The number of consecutive batches of one request."""

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, inputs: Arrays, outputs: tuple[str, ...], timeout: float) -> Arrays:
        """Return the outputs of a request.

        Args:
            inputs: the arrays by name, as `ServedSignature.convert` returns them.
            outputs: the names of the outputs.
            timeout: for how many seconds to wait.

        Raises:
            ResourceExhaustedError: too many requests wait.
            DeadlineExceededError: the outputs were not ready in time.
            UnavailableError: the queue was closed.
            OpError: the signature failed.
        """
        if self._closed is not None:
            raise self._closed
        if len(self._waiting) >= self._options.max_queued_requests:
            raise ResourceExhaustedError(
                f"{len(self._waiting)} requests wait for {self._name}, which is the limit; try "
                "again later"
            )
        if timeout <= 0:
            raise self._late(timeout)
        request = QueuedRequest(inputs, outputs, self._loop.time())
        if self._may_answer_at_once():
            times = self._times_of((request,))
            if times.is_quick:
                return self._answer_at_once(request, times)
        future = request.wait_in(self._loop)
        if self._iteration_end is not None:
            self._lone_batches = 0
        self._waiting.append(request)
        self._schedule()
        timer = self._loop.call_later(timeout, self._expire, request, timeout)
        try:
            return await future
        finally:
            timer.cancel()

    def close(self, error: OpError | None = None) -> None:
        """Fail all requests, those that wait and those that run, and later ones."""
        self._closed = error or UnavailableError(f"{self._name} is no longer served")
        if self._timer is not None:
            self._timer.cancel()
        for request in (*self._waiting, *self._in_progress):
            request.fail(self._closed)
        self._waiting.clear()

    def _may_answer_at_once(self) -> bool:
        """Return whether a request may run immediately if it is quick: none waits or may join."""
        return (
            not self._waiting
            and not self._may_wait
            and self._running < self._options.num_threads
            and (self._is_lone() if self._options.is_enabled else self._has_time())
        )

    def _is_lone(self) -> bool:
        """Return whether no further request of this iteration is expected to join the batch."""
        return (
            self._lone_batches >= _LONE_BATCHES
            and self._iteration_end is None
            and not self._options.max_wait_seconds
        )

    def _has_time(self) -> bool:
        """Return whether a model may still run in this iteration of the event loop."""
        return self._iteration_end is None or time.perf_counter() < self._iteration_end

    def _answer_at_once(self, request: QueuedRequest, times: RunTimes) -> Arrays:
        (result,) = self._inline_results((request,), times)
        self._on_batch(request.rows or 1)
        if isinstance(result, BaseException):
            raise _as_op_error(result, self._name)
        return result

    def _end_iteration(self) -> None:
        self._iteration_end = None

    def _late(self, timeout: float) -> DeadlineExceededError:
        return DeadlineExceededError(
            f"{self._name} did not answer within {max(timeout, 0):g} s; "
            f"{len(self._waiting)} requests wait for it"
        )

    def _expire(self, request: QueuedRequest, timeout: float) -> None:
        request.fail(self._late(timeout))

    def _schedule(self) -> None:
        """Dispatch after the other events of this iteration: they may bring more requests."""
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._is_scheduled = False
        while self._running < self._options.num_threads:
            batch = self._take_batch()
            if not batch:
                return
            self._lone_batches = self._lone_batches + 1 if len(batch) == 1 else 0
            self._running += 1
            self._in_progress.update(batch)
            if self._can_run_inline(batch):
                # Another thread would take longer to begin than the model to run.
                self._finish(batch, self._inline_results(batch, self._times_of(batch)))
                if self._options.is_enabled or not self._has_time():
                    return  # to the event loop, which calls this again if more requests wait
            else:
                job = self._executor.submit(self._run_batch, batch)
                del job  # its result arrives by `_finish`

    def _can_run_inline(self, batch: Sequence[QueuedRequest]) -> bool:
        """Return whether a batch may run in the thread of the event loop, without delaying it.

        Sessions compile during some of the first runs with new shapes, which takes long.
        """
        return not self._may_wait and self._times_of(batch).is_quick

    def _times_of(self, batch: Sequence[QueuedRequest]) -> RunTimes:
        shape = self._shape(batch)
        found = self._times.get(shape)
        if found is None:
            if len(self._times) >= _MAX_SHAPES:
                self._times.clear()
            found = self._times[shape] = RunTimes()
        return found

    def _shape(self, batch: Sequence[QueuedRequest]) -> tuple[Any, int]:
        rows = sum(request.rows for request in batch)
        is_padded = len(batch) > 1 or self._options.pads_alone
        return (batch[0].key, self._padded(rows) if is_padded else rows)

    def _take_batch(self) -> list[QueuedRequest]:
        """Return the requests of the next batch; none if it should wait for more."""
        waiting = self._waiting
        while waiting and waiting[0].future.done():  # expired or cancelled
            waiting.popleft()
        if not waiting:
            return []
        first = waiting[0]
        is_alone = not self._options.is_enabled or not first.rows
        if is_alone or first.rows >= self._options.max_batch_size:
            return [waiting.popleft()]
        batch, rows = self._matching(first)
        if rows < self._options.max_batch_size and self._should_wait(first):
            return []
        taken = set(map(id, batch))
        self._waiting = deque(request for request in waiting if id(request) not in taken)
        return batch

    def _matching(self, first: QueuedRequest) -> tuple[list[QueuedRequest], int]:
        """Return the requests that fit into a batch with the first, in order, and their rows."""
        batch, rows = [], 0
        for request in self._waiting:
            if request.future.done() or request.key != first.key or not request.rows:
                continue
            if rows + request.rows > self._options.max_batch_size:
                break
            batch.append(request)
            rows += request.rows
        return batch, rows

    def _should_wait(self, first: QueuedRequest) -> bool:
        """Return whether a batch waits for more requests; then a timer dispatches it."""
        if not self._options.max_wait_seconds:
            return False
        due = first.arrived + self._options.max_wait_seconds
        if due <= self._loop.time():
            return False
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._schedule)
        return True

    def _run_batch(self, batch: Sequence[QueuedRequest]) -> None:
        """Run a batch, in a thread of the executor."""
        started = time.thread_time()
        results = self._results_or_error(batch)
        seconds = time.thread_time() - started
        try:
            self._loop.call_soon_threadsafe(self._finish, batch, results, seconds)
        except RuntimeError:  # the loop was closed: nobody waits any more
            return

    def _inline_results(
        self, batch: Sequence[QueuedRequest], times: RunTimes
    ) -> Sequence[Arrays | BaseException]:
        started = time.perf_counter()
        if self._iteration_end is None:
            self._iteration_end = started + _ITERATION_SECONDS
            self._loop.call_soon(self._end_iteration)
        results = self._results_or_error(batch)
        times.add_inline(time.perf_counter() - started)
        return results

    def _results_or_error(self, batch: Sequence[QueuedRequest]) -> Sequence[Arrays | BaseException]:
        try:
            return self._results(batch)
        except BaseException as error:  # noqa: BLE001 - the requests wait for it
            return [error] * len(batch)

    def _results(self, batch: Sequence[QueuedRequest]) -> Sequence[Arrays | BaseException]:
        if len(batch) == 1:
            return [self._run_alone(batch[0])]
        try:
            return self._run_together(batch)
        except (DeadlineExceededError, CancelledError):
            raise
        except OpError:
            # One request may be at fault; the others should not fail with it.
            return [self._run_alone(request) for request in batch]

    def _run_alone(self, request: QueuedRequest) -> Arrays | BaseException:
        try:
            is_padded = self._options.pads_alone and self._padded(request.rows) != request.rows
            if request.rows and is_padded:
                return self._run_together([request])[0]
            return self._run(request.inputs, request.outputs)
        except OpError as error:
            return error

    def _run_together(self, batch: Sequence[QueuedRequest]) -> list[Arrays]:
        first = batch[0]
        rows = sum(request.rows for request in batch)
        padding = self._padded(rows) - rows
        together = {}
        for key, array in first.inputs.items():
            parts = [request.inputs[key] for request in batch]
            if padding:
                parts.append(np.repeat(array[:1], padding, axis=0))
            together[key] = np.concatenate(parts)
        outputs = self._run(together, first.outputs)
        for key, array in outputs.items():
            if not array.ndim or array.shape[0] != rows + padding:
                raise InvalidArgumentError(
                    f"output {key!r} of {self._name} has the shape {list(array.shape)} for a batch "
                    f"of {rows + padding} rows: its first dimension is not that of the batch. "
                    "Serve this model without batching"
                )
        return _split(outputs, [request.rows for request in batch])

    def _padded(self, rows: int) -> int:
        sizes = self._options.allowed_batch_sizes
        return next((size for size in sizes if size >= rows), rows)

    def _finish(
        self,
        batch: Sequence[QueuedRequest],
        results: Sequence[Arrays | BaseException],
        seconds: float | None = None,
    ) -> None:
        """Complete the requests of a batch; `seconds` is the processor time in another thread."""
        self._running -= 1
        if seconds is not None:
            self._times_of(batch).add(seconds)
        self._in_progress.difference_update(batch)
        self._on_batch(sum(request.rows for request in batch) or 1)
        for request, result in zip(batch, results, strict=True):
            if isinstance(result, BaseException):
                request.fail(_as_op_error(result, self._name))
            elif not request.future.done():
                request.future.set_result(result)
        if self._waiting:
            self._schedule()


def _split(outputs: Arrays, rows: Sequence[int]) -> list[Arrays]:
    """Return the rows of each request; views."""
    results = []
    start = 0
    for count in rows:
        results.append({key: array[start : start + count] for key, array in outputs.items()})
        start += count
    return results


def _as_op_error(error: BaseException, name: str) -> OpError:
    if isinstance(error, OpError):
        return error
    made = InternalError(f"{name} failed: {type(error).__name__}: {error}")
    made.__cause__ = error
    return made
