"""Dispatch gRPC calls to service methods, and convert exceptions to statuses."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import grpc

from graphmill.errors import InternalError, OpError, ResourceExhaustedError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.status import code_name, grpc_status, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill_plugins.distributed.monitoring.call_counters import CallCounters, MethodCounter

    Behaviour: TypeAlias = "Callable[[bytes, Call], bytes]"
    Reply: TypeAlias = "Callable[[bytes, OpError | None], None]"
    Submit: TypeAlias = "Callable[..., object]"  # runs a function in a thread of its own
    Starter: TypeAlias = "Callable[[bytes, Call, Reply, Submit], bool]"
    """Starts a call and returns True; or False if the method's behaviour is to be called.

    It replies once, from any thread, perhaps before it returns.
    """

_log = logging.getLogger("graphmill.server")


class Call(Protocol):
    """One call of a client.

    Attributes:
        code: the code of an error within the response; 0 for none. A status is counted separately.
        fields: fields for the log; None if the log is off.
    """

    code: int
    fields: dict[str, object] | None

    def on_end(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the client no longer waits.

        It has cancelled the call or disconnected, or the call's deadline has passed.

        Returns:
            False if that has happened; then `callback` is not called.
        """
        ...


class GrpcCall:
    """A call over gRPC.

    Args:
        context: grpcio's context of the call.
    """

    __slots__ = ("_context", "code", "fields")

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self.code = 0
        self.fields: dict[str, object] | None = None

    def on_end(self, callback: Callable[[], None]) -> bool:
        """Call `callback` when the call has ended, or its client has disconnected.

        Returns:
            False if that has happened; then `callback` is not called.
        """
        return bool(self._context.add_callback(callback))


class Services(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """The methods of a server, by path.

    Args:
        behaviours: the implementation of each method, on serialized requests.
        counters: count the calls.
    """

    def __init__(self, behaviours: Mapping[str, Behaviour], counters: CallCounters) -> None:
        self._handlers = {
            path: grpc.unary_unary_rpc_method_handler(
                answered(behaviour, path, counters.by_path[path])
            )
            for path, behaviour in behaviours.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method; None (UNIMPLEMENTED) if there is none."""
        return self._handlers.get(handler_call_details.method)


def answered(
    behaviour: Behaviour, path: str, counter: MethodCounter
) -> Callable[[bytes, Any], bytes]:
    """Return a handler that ends each call with a response or a status, and never raises."""

    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        call = GrpcCall(context)
        response, error = carry_out(behaviour, request, call, CallLog(path, counter, call, request))
        if error is not None:
            code, text = grpc_status(error)
            context.set_trailing_metadata(metadata_of(error))
            context.set_code(code)
            context.set_details(text)
        return response

    return handle


def carry_out(
    behaviour: Behaviour, request: bytes, call: Call, log: CallLog
) -> tuple[bytes, OpError | None]:
    """Call a behaviour; return its response or its error, and record the end of the call."""
    response, error = b"", None
    try:
        response = behaviour(request, call)
    except Exception as failure:  # noqa: BLE001 - whatever it is, a client waits for a status
        error = as_op_error(failure, log.path)
    log.end(len(response), error)
    return response, error


class CallLog:
    """Counts one call, and logs its end.

    Args:
        path: its method.
        counter: that of the method.
        call: the call; it gets a dict of fields if the log is on.
        request: its request.

    Attributes:
        path: as given.
    """

    __slots__ = ("_begun", "_call", "_counter", "_received", "path")

    def __init__(self, path: str, counter: MethodCounter, call: Call, request: bytes) -> None:
        self.path = path
        self._call = call
        self._counter = counter
        self._received = len(request)
        if _log.isEnabledFor(logging.DEBUG):
            call.fields = {}
        counter.begin(self._received)
        self._begun = time.perf_counter()

    def end(self, num_bytes: int, error: OpError | None) -> None:
        """Record the outcome.

        Args:
            num_bytes: the size of the response.
            error: why it failed; None if it did not.
        """
        call = self._call
        if error is not None:
            call.code = error.code
        seconds = time.perf_counter() - self._begun
        self._counter.end(call.code, num_bytes, seconds)
        if call.fields is not None:
            log_event(
                _log,
                logging.DEBUG,
                "call",
                method=self.path.rpartition("/")[2],
                code=code_name(call.code),
                milliseconds=round(seconds * 1000, 3),
                received_bytes=self._received,
                sent_bytes=num_bytes,
                **call.fields,
            )


def as_op_error(error: Exception, path: str) -> OpError:
    """Convert an exception to an `OpError`; an unexpected one is logged with its traceback."""
    if isinstance(error, OpError):
        return error
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(f"out of memory in {path}: {error}")
    _log.error("%s failed", path, exc_info=error)
    return InternalError(f"{path} failed: {type(error).__name__}: {error}")
