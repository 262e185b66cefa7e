"""`CompletionQueueCall`: one call of a `CompletionQueueServer`."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import grpc
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc

from graphmill_plugins._server.deferred_handler import DeferredHandler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Metadata = Iterable[tuple[str, str | bytes]]
    Work = Callable[[], None]

_log = logging.getLogger("graphmill.server")

_NO_FLAGS: Final = 0
_OK: Final = 0


def refuse(
    call: cygrpc.Call, code: grpc.StatusCode, details: str, on_ended: Callable[[], None]
) -> None:
    """End a call that has just arrived with a status; `on_ended` is called when that is done."""
    operations = (
        cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),
        cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),
        cygrpc.SendStatusFromServerOperation(None, code.value[0], details.encode(), _NO_FLAGS),
    )
    call.start_server_batch(operations, lambda _event: on_ended())


class CompletionQueueCall:
    """A call with one request, and the context that its handler gets.

    Of `grpc.ServicerContext` it has what handlers need that return one response, and handlers that
    get a callback for any number of responses (`experimental_non_blocking`).

    Args:
        event: the arrival of the call at gRPC's core.
        handler: its handler.
        on_handled: called once when the handler has returned, or a deferred one has answered.
        on_ended: called once when the core has processed all operations of the call.

    Threads: the methods that start with `_on` run in threads that poll, and the handler may send
    from any; `_lock` guards what they share.
    """

    __slots__ = (
        "_call",
        "_callbacks",
        "_code",
        "_deadline",
        "_details",
        "_handler",
        "_has_begun",
        "_is_handled",
        "_is_over",
        "_is_sending",
        "_lock",
        "_metadata",
        "_num_pending",
        "_on_ended",
        "_on_handled",
        "_unsent",
    )

    def __init__(
        self,
        event: Any,
        handler: grpc.RpcMethodHandler | DeferredHandler,
        on_handled: Callable[[], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._call = event.call
        self._deadline: float = event.call_details.deadline
        self._handler = handler
        self._on_handled = on_handled
        self._on_ended = on_ended
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._num_pending = 2  # batches that `start` starts
        self._is_over = False  # nothing is sent any longer
        self._code = _OK
        self._details = b""
        self._metadata: Metadata | None = None
        self._unsent: deque[bytes | None] = deque()
        self._has_begun = self._is_handled = self._is_sending = False

    def start(self) -> None:
        """Receive the request, and the end of the call."""
        # An operation belongs to one call: the core writes what it receives into it.
        start = self._call.start_server_batch
        start((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._on_close)
        start((cygrpc.ReceiveMessageOperation(_NO_FLAGS),), self._on_message)

    def time_remaining(self) -> float:
        """Return the seconds until the client stops waiting; a large number if it never does."""
        return max(self._deadline - time.time(), 0.0)

    def peer(self) -> str:
        """Return the address of the client."""
        return str(self._call.peer().decode())

    def answer(self, response: bytes) -> None:
        """Send the only response with the status, or the status alone if it is an error."""
        if self._code == _OK:
            self._start_last(cygrpc.SendMessageOperation(response, _NO_FLAGS))
        else:
            self._start_last()

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """End the call with an error, from any thread."""
        self.set_code(code)
        self.set_details(details)
        self._start_last()

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the call ends; return False if it has ended."""
        with self._lock:
            if not self._is_over:
                self._callbacks.append(callback)
            return not self._is_over

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the code of the status."""
        self._code = code.value[0]

    def set_details(self, details: str) -> None:
        """Set the message of the status."""
        self._details = details.encode()

    def set_trailing_metadata(self, metadata: Metadata) -> None:
        """Set the metadata of the status."""
        self._metadata = tuple(metadata)

    def _on_close(self, _event: Any) -> None:
        """Note that the client has the response, or has cancelled or disconnected."""
        with self._lock:
            self._is_over = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001 - logged; the thread serves other calls too
                _log.exception("a callback at the end of a call failed")
        self._on_processed(None)

    def _on_message(self, event: Any) -> Work | None:
        """Start a deferred handler, or return the work of another one."""
        request = event.batch_operations[0].message()
        work = None
        if request is None:  # the client has cancelled, or sent no request
            self.fail(grpc.StatusCode.UNIMPLEMENTED, "the method requires one request message")
        elif isinstance(self._handler, DeferredHandler):
            self._start(self._handler, request)
        else:
            work = functools.partial(self._handle, self._handler, request)
        self._on_processed(None)
        return work

    def _on_processed(self, _event: Any) -> None:
        """Count the end of a batch."""
        with self._lock:
            self._num_pending -= 1
            has_ended = not self._num_pending
        if has_ended:
            self._on_ended()

    def _note_handled(self) -> None:
        """Tell the server that the handler has ended, the first time."""
        with self._lock:
            was_handled, self._is_handled = self._is_handled, True
        if not was_handled:
            self._on_handled()

    def _start(self, handler: DeferredHandler, request: bytes) -> None:
        """Start a handler that answers later."""
        try:
            handler.start(_parsed(handler.request_deserializer, request), self)
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for a status
            self._end_failed(error)

    def _handle(self, handler: grpc.RpcMethodHandler, request: bytes) -> None:
        """Run the handler, and send its response or a status."""
        try:
            argument = _parsed(handler.request_deserializer, request)
            if handler.response_streaming:  # one that gets a callback
                handler.unary_stream(argument, self, self._send)
            else:
                response = handler.unary_unary(argument, self)
                self.answer(_apply(handler.response_serializer, response))
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for a status
            self._end_failed(error)
        self._note_handled()

    def _end_failed(self, error: Exception) -> None:
        if isinstance(error, _MalformedRequestError):  # the client's fault; the code is gRPC's own
            self.fail(grpc.StatusCode.INTERNAL, str(error))
            return
        _log.error("a handler failed", exc_info=error)
        self.fail(grpc.StatusCode.UNKNOWN, f"the handler failed: {type(error).__name__}")

    def _start_last(self, *operations: cygrpc.Operation) -> None:
        """Send the status after other operations, unless the call is over."""
        status = cygrpc.SendStatusFromServerOperation(
            self._metadata, self._code, self._details, _NO_FLAGS
        )
        self._note_handled()  # before the client can call again
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            self._num_pending += 1
        self._call.start_server_batch(
            (*self._initial_operation(), *operations, status), self._on_processed
        )

    def _initial_operation(self) -> tuple[cygrpc.Operation, ...]:
        """Return the operation that begins the response, the first time."""
        if self._has_begun:
            return ()
        self._has_begun = True
        return (cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS),)

    def _send(self, response: Any) -> None:
        """Send one of several responses, from any thread; None ends the call."""
        serializer = self._handler.response_serializer  # type: ignore[union-attr]
        data = None if response is None else _apply(serializer, response)
        with self._lock:
            self._unsent.append(data)
            if self._is_sending:
                return
            self._is_sending = True
        self._send_next()

    def _send_next(self) -> None:
        """Send the next response, if there is one and the call is not over."""
        with self._lock:
            if not self._unsent or self._is_over:
                self._is_sending = False
                return
            data = self._unsent.popleft()
            if data is not None:
                self._num_pending += 1
        if data is None:
            self._start_last()
            return
        operation = cygrpc.SendMessageOperation(data, _NO_FLAGS)
        self._call.start_server_batch((*self._initial_operation(), operation), self._on_sent)

    def _on_sent(self, _event: Any) -> None:
        self._send_next()
        self._on_processed(None)


class _MalformedRequestError(Exception):
    """A request is not a message of the method's type."""


def _parsed(deserializer: Callable[[Any], Any] | None, request: bytes) -> Any:
    """Return the message in a request.

    Raises:
        _MalformedRequestError: there is none.
    """
    try:
        return _apply(deserializer, request)
    except DecodeError as error:
        raise _MalformedRequestError("the request is not a message of the method's type") from error


def _apply(function: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if function is None else function(value)
