"""`Queue`: the queue that enqueue and dequeue kernels use; independent of ops and graphs.

Semantics: tensorflow/core/kernels/queue_base.cc, fifo_queue.cc. Pending enqueues and dequeues
(`Attempt`) are held in two lists. After each change of the queue the first attempt of each list is
tried until neither makes progress. So attempts are served in order of arrival, and no thread
blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import CancelledError, OutOfRangeError
from graphmill.spi.kernels import cancellable
from graphmill.spi.process import fork_safe_lock, track_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Cancellation, Shape, Value

    Element = tuple[Value, ...]
    """One entry of a queue: a value for each component."""
    Done = Callable[[list[Element] | None, BaseException | None], None]
    """Called once: with the dequeued elements, or with an error."""

UNBOUNDED: Final = (1 << 31) - 1

_BLOCKED: Final = 0
_PROGRESSED: Final = 1
_COMPLETE: Final = 2


class Attempt(ABC):
    """A pending operation on a queue.

    Attributes:
        done: called outside the queue's lock when the attempt has ended, with or without error.
        error: why it failed, or None.
        has_ended: set under the queue's lock, once.
    """

    cancelled_message = "Enqueue operation was cancelled"
    is_dequeue = False

    __slots__ = ("_cancellation", "_token", "done", "error", "has_ended")

    def __init__(self, done: Done) -> None:
        self.done = done
        self.error: BaseException | None = None
        self.has_ended = False
        self._cancellation: Cancellation | None = None
        self._token: int | None = None

    @abstractmethod
    def run(self, queue: Queue) -> int:
        """Make progress under the lock; return `_BLOCKED`, `_PROGRESSED` or `_COMPLETE`."""

    @abstractmethod
    def awaited(self, queue: Queue) -> str:
        """Describe what the attempt waits for; without the lock, so the numbers are estimates."""

    def result(self) -> list[Element] | None:
        """Return the dequeued elements; None for an enqueue."""
        return None

    def finish(self) -> None:
        """Call `done` once, outside of the lock."""
        if self._cancellation is not None:
            self._cancellation.deregister(self._token)
        if self.error is not None:
            self.done(None, self.error)
        else:
            self.done(self.result(), None)

    def watch(self, queue: Queue, cancellation: Cancellation) -> None:
        """Cancel the attempt when its step is cancelled, unless it has ended."""
        token = cancellation.register(lambda: queue.cancel(self))
        if token is None:
            queue.cancel(self)
        elif not queue.note_token(self, cancellation, token):
            cancellation.deregister(token)

    def note_token(self, cancellation: Cancellation, token: int) -> None:
        """Store the cancellation token, which `finish` deregisters; under the lock."""
        self._cancellation, self._token = cancellation, token


class Enqueue(Attempt):
    """Add elements to a queue one by one while it has room."""

    __slots__ = ("_elements", "_next")

    def __init__(self, elements: Sequence[Element], done: Done) -> None:
        super().__init__(done)
        self._elements = elements
        self._next = 0

    def run(self, queue: Queue) -> int:
        """Add as many elements as fit; they stay even if the rest is cancelled."""
        if queue.is_closed:
            self.error = CancelledError(f"{queue.kind} '{queue.name}' is closed.")
            return _COMPLETE
        room = max(queue.capacity - len(queue.entries), 0)
        batch = self._elements[self._next : self._next + room]
        for element in batch:
            queue.put(element)
        self._next += len(batch)
        if self._next == len(self._elements):
            return _COMPLETE
        return _PROGRESSED if batch else _BLOCKED

    def awaited(self, queue: Queue) -> str:
        """Describe the room that the attempt waits for."""
        return f"room in {queue}"


class Close(Attempt):
    """Close a queue after the enqueues that arrived earlier."""

    __slots__ = ()

    def run(self, queue: Queue) -> int:
        """Close the queue."""
        if queue.is_closed:
            self.error = CancelledError(f"Queue '{queue.name}' is already closed.")
        queue.is_closed = True
        return _COMPLETE

    def awaited(self, queue: Queue) -> str:
        """Describe the enqueues that the attempt waits for."""
        return f"earlier enqueues into {queue}"


class Dequeue(Attempt):
    """Take elements from a queue one by one as they arrive.

    With `allow_fewer` a closed queue may return fewer than `count`, but at least one.
    """

    cancelled_message = "Dequeue operation was cancelled"
    is_dequeue = True

    __slots__ = ("_allow_fewer", "_count", "_taken")

    def __init__(self, count: int, done: Done, *, allow_fewer: bool = False) -> None:
        super().__init__(done)
        self._count = count
        self._allow_fewer = allow_fewer
        self._taken: list[Element] = []

    def run(self, queue: Queue) -> int:
        """Take the available elements."""
        entries = self._taken
        if queue.is_closed and len(queue.entries) < self._count - len(entries):
            outcome = self._run_closed(queue)
            if outcome is not None:
                return outcome
        available = min(queue.available, self._count - len(entries))
        if queue.dequeues_atomically and available < self._count:
            return _BLOCKED
        entries += [queue.take() for _ in range(available)]
        if len(entries) == self._count:
            return _COMPLETE
        return _PROGRESSED if available > 0 else _BLOCKED

    def result(self) -> list[Element]:
        """Return the dequeued elements."""
        return self._taken

    def awaited(self, queue: Queue) -> str:
        """Describe the elements that the attempt waits for."""
        missing = self._count - len(self._taken)
        return f"{'an element' if missing == 1 else f'{missing} elements'} of {queue}"

    def _run_closed(self, queue: Queue) -> int | None:
        """Handle a closed queue with too few elements; return None if the attempt continues."""
        missing, size = self._count - len(self._taken), len(queue.entries)
        queue.put_back(self._taken)
        self._taken.clear()
        if self._allow_fewer and queue.entries:
            self._count = len(queue.entries)
            return None
        if self._allow_fewer and queue.has_waiting_enqueues:
            return _PROGRESSED
        self.error = OutOfRangeError(
            f"{queue.kind} '{queue.name}' is closed and has insufficient elements "
            f"(requested {missing}, current size {size})"
        )
        return _COMPLETE


class Queue:
    """A queue of tuples of tensors.

    Threads: `_lock` guards entries and pending attempts. Callbacks run outside it, in the thread
    whose operation completed the attempt.

    Attributes:
        kind: the name of its op, for messages.
        name: its own name, for messages.
        capacity: the maximum number of elements.
        dtypes: element type of each component.
        shapes: static shape of each component; None if they are unspecified.
        is_closed: whether enqueues fail.
        entries: the elements; guarded by the lock.
        dequeues_atomically: whether a dequeue takes nothing until all its elements are available.
    """

    kind = "Queue"
    dequeues_atomically = False

    def __init__(
        self,
        name: str,
        dtypes: tuple[DType, ...],
        shapes: tuple[Shape, ...] | None = None,
        capacity: int = -1,
    ) -> None:
        self._lock = fork_safe_lock()
        self._enqueues: deque[Attempt] = deque()
        self._dequeues: deque[Attempt] = deque()
        self.name = name
        self.dtypes = dtypes
        self.shapes = shapes
        self.capacity = UNBOUNDED if capacity < 0 else capacity
        self.is_closed = False
        self.entries: Any = self._new_entries()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Drop the pending attempts, whose steps do not exist in the child."""
        self._enqueues.clear()
        self._dequeues.clear()

    def __str__(self) -> str:
        capacity = "unlimited" if self.capacity == UNBOUNDED else self.capacity
        limits = f"{len(self.entries)} elements, capacity {capacity}{self._more_limits()}"
        closed = ", closed" if self.is_closed else ""
        pending = f"{len(self._enqueues)} enqueues and {len(self._dequeues)} dequeues pending"
        return f"{self.kind} '{self.name}' ({limits}{closed}, {pending})"

    @property
    def size(self) -> int:
        """Number of elements."""
        with self._lock:
            return len(self.entries)

    @property
    def has_waiting_enqueues(self) -> bool:
        """Whether an enqueue is pending; under the lock."""
        return bool(self._enqueues)

    @property
    def available(self) -> int:
        """Number of elements that can be dequeued now; under the lock."""
        return len(self.entries)

    def put_now(self, *elements: Element) -> bool:
        """Add elements if nothing is pending and all have room; return whether they were added.

        If the step is cancelled meanwhile, those that were added stay.
        """
        with self._lock:
            if self.is_closed or self._enqueues or self._dequeues:
                return False
            if len(self.entries) + len(elements) > self.capacity:
                return False
            for element in elements if len(elements) == 1 else cancellable(elements):
                self.put(element)
            return True

    def take_now(self) -> Element | None:
        """Take an element if nothing is pending and one is available, else return None."""
        with self._lock:
            if self._enqueues or self._dequeues or self.available < 1:
                return None
            return self.take()

    def take_many_now(self, count: int) -> list[Element] | None:
        """Take elements if nothing is pending and all are available, else return None."""
        with self._lock:
            if self._enqueues or self._dequeues or self.available < count:
                return None
            return [self.take() for _ in range(count)]

    def submit(self, attempt: Attempt, cancellation: Cancellation | None = None) -> None:
        """Try an attempt, or leave it pending; `attempt.done` is called now or later."""
        waiting = self._dequeues if attempt.is_dequeue else self._enqueues
        with self._lock:
            waiting.append(attempt)
            ended = self._flush()
        _finish(ended)
        if cancellation is not None and not attempt.has_ended:
            attempt.watch(self, cancellation)

    def cancel(self, attempt: Attempt) -> None:
        """End a pending attempt with CancelledError.

        Elements that an enqueue has added stay in the queue; elements that a dequeue has taken are
        lost.
        """
        with self._lock:
            if attempt.has_ended:
                return
            self._cancel_locked(attempt)
            (self._dequeues if attempt.is_dequeue else self._enqueues).remove(attempt)
            ended = [attempt, *self._flush()]
        _finish(ended)

    def close(
        self,
        done: Done,
        cancellation: Cancellation | None = None,
        *,
        cancel_pending: bool = False,
    ) -> None:
        """Close after the pending enqueues, or with `cancel_pending` cancel them and close now."""
        if not cancel_pending:
            self.submit(Close(done), cancellation)
            return
        with self._lock:
            self.is_closed = True
            ended = list(self._enqueues)
            self._enqueues.clear()
            for attempt in ended:
                self._cancel_locked(attempt)
            ended += self._flush()
        _finish(ended)
        done(None, None)

    def note_token(self, attempt: Attempt, cancellation: Cancellation, token: int) -> bool:
        """Store an attempt's cancellation token; return False if it has ended meanwhile."""
        with self._lock:
            if attempt.has_ended:
                return False
            attempt.note_token(cancellation, token)
            return True

    # Not an `ABC`: each enqueue and dequeue asks whether a resource is a queue, and `isinstance`
    # with an abstract class calls Python.
    def put(self, element: Element) -> None:
        """Add an element; under the lock."""
        raise NotImplementedError

    def take(self) -> Element:
        """Remove and return an element; under the lock, from a queue that is not empty."""
        raise NotImplementedError

    def put_back(self, elements: Sequence[Element]) -> None:
        """Put dequeued elements back; under the lock."""
        raise NotImplementedError

    def _more_limits(self) -> str:
        """Return further limits as text, with a comma before them; "" for none."""
        return ""

    def _new_entries(self) -> Any:
        return deque()

    @staticmethod
    def _cancel_locked(attempt: Attempt) -> None:
        attempt.has_ended = True
        attempt.error = CancelledError(attempt.cancelled_message)

    def _flush(self) -> list[Attempt]:
        """Try pending attempts until none makes progress; return those that have ended."""
        ended: list[Attempt] = []
        while True:
            progressed = self._flush_pending(self._enqueues, ended)
            if not self._flush_pending(self._dequeues, ended) and not progressed:
                return ended

    def _flush_pending(self, pending: deque[Attempt], ended: list[Attempt]) -> bool:
        progressed = False
        while pending:
            outcome = pending[0].run(self)
            if outcome != _COMPLETE:
                return progressed or outcome == _PROGRESSED
            progressed = True
            attempt = pending.popleft()
            attempt.has_ended = True
            ended.append(attempt)
        return progressed


def _finish(ended: Iterable[Attempt]) -> None:
    for attempt in ended:
        attempt.finish()
