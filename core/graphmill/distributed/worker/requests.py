"""`RecentRequests`: detect repeated requests, and return the outcome of the first one.

A client that loses its connection repeats a request with the same id. A step must not be applied
twice, so the second request waits for the outcome of the first, or gets it if it is still stored.
Semantics: `tensorflow/core/distributed_runtime/recent_request_ids.h`, which only refuses the second
one.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from graphmill.errors import AbortedError, CancelledError, OpError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    Outcome = tuple[Any, OpError | None]

MAX_IDS: Final = 20_000
"""The number of ids of ended requests that are remembered, to refuse repeated ones."""
MAX_OUTCOMES: Final = 1024
"""The number of outcomes of ended requests that are remembered."""
MAX_BYTES: Final = 16 << 20
"""Maximum total size in bytes of the remembered outcomes of ended requests."""
_MIN_OUTCOME_BYTES: Final = 256  # the size that is counted for an outcome without tensors

_Result = TypeVar("_Result")


class Request(Generic[_Result]):
    """A running or ended request, and the callers that wait for it.

    Attributes:
        cancel: cancels the work; set by the code that does it.
        outcome: result and error, or None before the end.
    """

    __slots__ = ("_callers", "_table", "cancel", "id", "outcome")

    def __init__(self, table: RecentRequests[_Result], request_id: int) -> None:
        self._table = table
        self.id = request_id
        self._callers: list[Callable[[Any, OpError | None], None]] = []
        self.cancel: Callable[[OpError], None] | None = None
        self.outcome: Outcome | None = None

    def finish(self, result: _Result | None, error: OpError | None, size: int = 0) -> None:
        """Pass the outcome to all callers.

        Args:
            result: the result; None if there is an error.
            error: the error, or None.
            size: the size of the result in bytes.
        """
        with self._table.lock:
            self.outcome = (result, None if error is None else _without_traceback(error))
            self.cancel = None
            callers, self._callers = self._callers, []
            self._table.note_end(self, size)
        for caller in callers:
            caller(result, error)

    def leave(self, caller: Callable[[Any, OpError | None], None]) -> None:
        """Release a caller with an error; if no caller is left, cancel the work."""
        error = CancelledError(
            "the caller of the step has disconnected, or its deadline has passed"
        )
        with self._table.lock:
            if self.outcome is not None or caller not in self._callers:
                return
            self._callers.remove(caller)
            cancel = None if self._callers else self.cancel
        if cancel is not None:
            cancel(error)
        caller(None, error)  # it may be a thread that waits

    def join(self, caller: Callable[[Any, OpError | None], None]) -> None:
        """Add a caller; the table's lock must be held."""
        self._callers.append(caller)


def _without_traceback(error: OpError) -> OpError:
    """Return a copy of an error and its cause whose tracebacks hold no values of the step."""
    copied = copy.copy(error)
    copied.__traceback__ = None
    if isinstance(error.__cause__, OpError):
        copied.__cause__ = _without_traceback(error.__cause__)
    return copied


class RecentRequests(Generic[_Result]):
    """The running requests, and recently ended ones.

    Threads: `lock` guards the table and the callers of all requests.
    """

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self._requests: dict[int, Request[_Result]] = {}
        self._ended: dict[int, int] = {}  # the sizes of remembered outcomes, oldest first
        self._forgotten: dict[int, None] = {}
        self._num_bytes = 0

    def enter(
        self, request_id: int, caller: Callable[[_Result | None, OpError | None], None]
    ) -> tuple[Request[_Result], bool]:
        """Return the request of an id, and whether it is new, so that the caller must run it.

        Args:
            request_id: 0 for a request that is never repeated.
            caller: receives the outcome, immediately if it is stored.

        Raises:
            AbortedError: the request is repeated, and its outcome is no longer stored.
        """
        with self.lock:
            if request_id in self._forgotten:
                raise AbortedError(
                    f"the request with id {request_id} was received twice, and the result of the "
                    "first one is no longer stored. The request is not repeated"
                )
            earlier = self._requests.get(request_id) if request_id else None
            is_new = earlier is None
            request = earlier or Request(self, request_id)
            if is_new and request_id:
                self._requests[request_id] = request
            outcome = request.outcome
            if outcome is None:
                request.join(caller)
        if outcome is not None:
            caller(*outcome)
        return request, is_new

    def note_end(self, request: Request[_Result], size: int) -> None:
        """Store an outcome, and evict old ones; the lock must be held."""
        if not request.id:
            return
        self._ended[request.id] = size + _MIN_OUTCOME_BYTES
        self._num_bytes += size + _MIN_OUTCOME_BYTES
        while self._num_bytes > MAX_BYTES or len(self._ended) > MAX_OUTCOMES:
            oldest = next(iter(self._ended))
            self._num_bytes -= self._ended.pop(oldest)
            del self._requests[oldest]
            self._forgotten[oldest] = None
        while len(self._forgotten) > MAX_IDS:
            del self._forgotten[next(iter(self._forgotten))]
