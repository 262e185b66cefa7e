"""Group the rows of several callers into batches, and decide when each batch runs.

Semantics: tensorflow/core/kernels/batching_util/shared_batch_scheduler.h. The scheduler has no
threads except the timers of batches that wait for more rows: a batch runs in the step of the
caller whose rows joined it last.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from graphmill.errors import CancelledError, UnavailableError
from graphmill.spi.process import fork_safe_lock, track_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation

    CallLater: TypeAlias = Callable[[float, Callable[[], None]], Callable[[], None]]

_NO_WAIT = 100e-6  # seconds; starting a timer takes as long, so shorter waits count as zero


@dataclass(eq=False, slots=True)
class Rows:
    """The rows of one caller in a batch, or a part of them.

    Attributes:
        count: the number of rows.
        inputs: the rows of each input.
        run: runs a batch in the caller's step; called for the last part of a batch.
        done: called once, with the rows of each output, or with `error`.
        key: names the caller's rows in the index of a batch.
    """

    count: int
    inputs: list[Any]
    run: Callable[[Batch], None]
    done: Callable[..., None]
    key: int = 0


@dataclass(eq=False, slots=True)
class Batch:
    """The rows that run together.

    Attributes:
        queue: the name of the queue; only rows of one queue share a batch.
        parts: the rows of the callers, in the order of arrival.
        is_due: whether the batch has waited long enough, or is full.
        stop_waiting: cancels its timer.
    """

    queue: str
    parts: list[Rows] = field(default_factory=list)
    is_due: bool = False
    stop_waiting: Callable[[], None] | None = None

    @property
    def count(self) -> int:
        """The number of rows."""
        return sum(part.count for part in self.parts)


def timer(seconds: float, call: Callable[[], None]) -> Callable[[], None]:
    """Call a function later in a thread; return a function that cancels the call.

    The time is limited to what a thread can wait, hundreds of years; a graph may ask for more.
    """
    new_timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), call)
    new_timer.daemon = True
    new_timer.start()
    return new_timer.cancel


class Batcher:
    """Collect rows in batches, and limit the numbers of batches that run and wait.

    Args:
        max_running: the maximum number of batches that run at once.
        largest: the maximum number of rows in a batch.
        timeout: the number of seconds that a batch waits for more rows.
        max_waiting: the maximum number of waiting batches in a queue.
        call_later: starts a timer.

    Threads: `_lock` guards all state; no callback runs under it.
    """

    def __init__(
        self,
        max_running: int,
        largest: int,
        timeout: float,
        max_waiting: int,
        call_later: CallLater = timer,
    ) -> None:
        self.largest = largest
        self._max_running = max(max_running, 1)
        self._timeout = timeout if timeout > _NO_WAIT else 0.0
        self._max_waiting = max_waiting
        self._call_later = call_later
        self._lock = fork_safe_lock()
        self._waiting: list[Batch] = []
        self._running = 0
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget all batches, whose steps do not exist in this process."""
        self._waiting.clear()
        self._running = 0

    def submit(self, queue: str, rows: Rows, cancellation: Cancellation | None) -> None:
        """Add rows to a batch, which runs when it is full or has timed out and there is capacity.

        Raises:
            UnavailableError: the queue already has the maximum number of waiting batches.
        """
        with self._lock:
            batch = self._with_room(queue, rows.count)
            is_new = batch is None
            if batch is None:
                batch = self._opened(queue)
            batch.parts.append(rows)
            if batch.count == self.largest or not self._timeout:
                batch.is_due = True
        if is_new and not batch.is_due:
            self._start_timer(batch)
        self._watch(batch, rows, cancellation)
        self._start_due()

    def ended(self) -> None:
        """Record that a batch has run."""
        with self._lock:
            self._running -= 1
        self._start_due()

    def _with_room(self, queue: str, count: int) -> Batch | None:
        for batch in reversed(self._waiting):
            if batch.queue == queue:
                return batch if batch.count + count <= self.largest else None
        return None

    def _opened(self, queue: str) -> Batch:
        mine = [batch for batch in self._waiting if batch.queue == queue]
        if len(mine) >= self._max_waiting:
            raise UnavailableError(
                "The batch scheduling queue to which this task was submitted is full; currently "
                f"{len(mine)} batches wait, max_enqueued_batches is {self._max_waiting}"
            )
        if mine:
            mine[-1].is_due = True  # later rows join the new batch
        new_batch = Batch(queue)
        self._waiting.append(new_batch)
        return new_batch

    def _start_timer(self, batch: Batch) -> None:
        stop = self._call_later(self._timeout, lambda: self._time_is_up(batch))
        with self._lock:
            if not batch.is_due:
                batch.stop_waiting = stop
                return
        stop()

    def _time_is_up(self, batch: Batch) -> None:
        with self._lock:
            batch.is_due = True
        self._start_due()

    def _start_due(self) -> None:
        while True:
            with self._lock:
                due = [batch for batch in self._waiting if batch.is_due]
                if not due or self._running >= self._max_running:
                    return
                batch = due[0]
                self._waiting.remove(batch)
                self._running += 1
            if batch.stop_waiting is not None:
                batch.stop_waiting()
            batch.parts[-1].run(batch)

    def _watch(self, batch: Batch, rows: Rows, cancellation: Cancellation | None) -> None:
        """Remove rows from their waiting batch when their step is cancelled."""
        if cancellation is None:
            return
        token = cancellation.register(lambda: self._withdraw(batch, rows))
        if token is None:
            self._withdraw(batch, rows)
            return
        finished = rows.done

        def done(*results: Any, **error: Any) -> None:
            cancellation.deregister(token)
            finished(*results, **error)

        rows.done = done

    def _withdraw(self, batch: Batch, rows: Rows) -> None:
        with self._lock:
            if batch not in self._waiting or rows not in batch.parts:
                return
            batch.parts.remove(rows)
            if not batch.parts:
                self._waiting.remove(batch)
        if not batch.parts and batch.stop_waiting is not None:
            batch.stop_waiting()
        rows.done(error=CancelledError("the step was cancelled while its rows waited in a batch"))
