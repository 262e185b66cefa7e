"""`DeferredHandler`: a handler of gRPC calls that returns at once and answers later."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import grpc

if TYPE_CHECKING:
    from collections.abc import Callable


class DeferredCall(Protocol):
    """The call that a deferred handler gets."""

    def answer(self, response: bytes) -> None:
        """Send the response, from any thread."""

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """Send an error, from any thread."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the call ends; return False if it has ended."""
        ...

    def time_remaining(self) -> float:
        """Return the seconds until the client stops waiting; a large number if it never does."""
        ...

    def peer(self) -> str:
        """Return the address of the client."""
        ...


class DeferredHandler(NamedTuple):
    """A handler that returns at once, and answers later.

    Attributes:
        start: called with a request and its call, in a thread that other calls need: it must not
            wait. It, or any thread later, calls `answer` or `fail` of the call once.
        request_deserializer: returns the request of its serialized form.
    """

    start: Callable[[Any, DeferredCall], None]
    request_deserializer: Callable[[bytes], Any]


class BlockingHandlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Handlers for `grpc.server`: a deferred one becomes one that waits for its answer.

    Args:
        handlers: where the handlers come from.
    """

    def __init__(self, handlers: grpc.GenericRpcHandler) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method; None if there is none."""
        handler = self._handlers.service(handler_call_details)
        if not isinstance(handler, DeferredHandler):
            return handler

        def wait(request: Any, context: grpc.ServicerContext) -> bytes:
            call = _WaitingCall(context)
            handler.start(request, call)
            return call.response()

        return grpc.unary_unary_rpc_method_handler(wait, handler.request_deserializer)


class _WaitingCall:
    """A `DeferredCall` whose thread waits for the answer.

    Args:
        context: of the call.
    """

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self._response = b""
        self._has_ended = threading.Event()
        self.add_callback = context.add_callback
        self.peer = context.peer
        self.time_remaining = context.time_remaining

    def answer(self, response: bytes) -> None:
        """Send the response."""
        self._response = response
        self._has_ended.set()

    def fail(self, code: grpc.StatusCode, details: str) -> None:
        """Send an error."""
        self._context.set_code(code)
        self._context.set_details(details)
        self._has_ended.set()

    def response(self) -> bytes:
        """Wait for the response, and return it."""
        self._has_ended.wait()
        return self._response
