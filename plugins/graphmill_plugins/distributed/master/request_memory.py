"""`RequestMemory`: make retried requests idempotent by attaching them to the first one."""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from graphmill.errors import AbortedError, InternalError, OpError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from graphmill_plugins.distributed.server.dispatch import Call

MAX_REQUESTS: Final = 4096
"""The number of finished requests that are remembered."""
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Maximum total size in bytes of the stored responses; clients retry within milliseconds."""


class Request:
    """One request, in flight or finished; guarded by `RequestMemory`.

    Attributes:
        num_callers: how many calls wait for it.
        is_done: whether it has ended.
        response: its response; None if it failed, or if the response is no longer stored.
        error: what it failed with.
        waiting: wakes the calls that were attached to it; None if there was none.
        cancel: ends its step; None while it has none.
    """

    __slots__ = ("cancel", "error", "is_done", "num_callers", "response", "waiting")

    def __init__(self) -> None:
        self.num_callers = 1
        self.is_done = False
        self.response: bytes | None = None
        self.error: OpError | None = None
        self.waiting: threading.Event | None = None
        self.cancel: Callable[[], None] | None = None


_FORGOTTEN: Final = Request()


class RequestMemory:
    """The requests of one session by id.

    Threads: `_lock` guards the table and the requests in it.

    Args:
        max_requests: how many finished requests are remembered.
        max_response_bytes: how many bytes of responses are stored.
    """

    def __init__(
        self, max_requests: int = MAX_REQUESTS, max_response_bytes: int = MAX_RESPONSE_BYTES
    ) -> None:
        self._lock = threading.Lock()
        self._max_requests = max_requests
        self._max_response_bytes = max_response_bytes
        self._running: dict[Hashable, Request] = {}
        self._finished: OrderedDict[Hashable, Request] = OrderedDict()
        self._with_response: OrderedDict[Hashable, int] = OrderedDict()
        self._response_bytes = 0

    def run(self, key: Hashable, call: Call, work: Callable[[Request], bytes]) -> bytes:
        """Execute a request, or wait for the request with that id.

        Args:
            key: the id.
            call: the caller's RPC. A request ends early when all RPCs that wait for it have ended.
            work: executes the request; it is called at most once.

        Raises:
            AbortedError: it was answered before, and the response is no longer stored.
            OpError: what the work raised.
        """
        with self._lock:
            known = self._running.get(key)
            if known is not None:
                known.num_callers += 1
                if known.waiting is None:
                    known.waiting = threading.Event()
            elif key in self._finished:
                return self._answer(self._finished[key], key)
            else:
                request = self._running[key] = Request()
        if known is not None:
            assert known.waiting is not None
            if not call.on_end(lambda: self.leave(known)):
                self.leave(known)
            known.waiting.wait()
            with self._lock:
                return self._answer(known, key)
        return self._first(key, request, work)

    def leave(self, request: Request) -> None:
        """Remove a disconnected caller; cancel the request if it was the last one."""
        with self._lock:
            request.num_callers -= 1
            is_unwanted = request.num_callers == 0 and not request.is_done
        if is_unwanted and request.cancel is not None:
            request.cancel()

    def _first(self, key: Hashable, request: Request, work: Callable[[Request], bytes]) -> bytes:
        try:
            response = work(request)
        except Exception as error:
            self._finish(key, request, None, error)
            raise
        self._finish(key, request, response, None)
        return response

    def _finish(
        self, key: Hashable, request: Request, response: bytes | None, error: Exception | None
    ) -> None:
        with self._lock:
            request.is_done = True
            request.response, request.error = response, _without_frames(error)
            request.cancel = None
            del self._running[key]
            self._finished[key] = request
            if response is not None:
                self._with_response[key] = len(response)
                self._response_bytes += len(response)
            self._forget_oldest()
            waiting = request.waiting
        if waiting is not None:
            waiting.set()

    def _forget_oldest(self) -> None:
        while self._response_bytes > self._max_response_bytes:
            key, size = self._with_response.popitem(last=False)
            self._response_bytes -= size
            self._finished[key] = _FORGOTTEN  # calls that are attached have the request itself
        while len(self._finished) > self._max_requests:
            key, _ = self._finished.popitem(last=False)
            self._response_bytes -= self._with_response.pop(key, 0)

    def _answer(self, request: Request, key: Hashable) -> bytes:
        if request.error is not None:
            raise copy.copy(request.error)
        if request.response is None:
            raise AbortedError(
                f"request {key} was received twice: its work is done, but its response is no "
                "longer stored"
            )
        return request.response


def _without_frames(error: Exception | None) -> OpError | None:
    """Return a copy of an error without its traceback, whose frames hold the fed values."""
    if error is None or isinstance(error, OpError):
        return copy.copy(error)
    return InternalError(f"{type(error).__name__}: {error}")
