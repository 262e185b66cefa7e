"""Dispatch gRPC calls to service methods, and convert exceptions to statuses."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from graphmill.errors import InternalError, OpError, ResourceExhaustedError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.status import code_name, grpc_status, metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill_plugins.distributed.monitoring.call_counters import CallCounters, MethodCounter

    Behaviour: TypeAlias = "Callable[[bytes, Call], bytes]"

_log = logging.getLogger("graphmill.server")


class Call:
    """One call of a client.

    Args:
        context: grpcio's context of the call.

    Attributes:
        code: the code of an error within the response; 0 for none. A status is counted separately.
        fields: fields for the log; None if the log is off.
    """

    __slots__ = ("_context", "code", "fields")

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context
        self.code = 0
        self.fields: dict[str, object] | None = {} if _log.isEnabledFor(logging.DEBUG) else None

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
        counter.begin(len(request))
        begun = time.perf_counter()
        call = Call(context)
        response = b""
        try:
            response = behaviour(request, call)
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for a status
            op_error = as_op_error(error, path)
            call.code = op_error.code
            code, text = grpc_status(op_error)
            context.set_trailing_metadata(metadata_of(op_error))
            context.set_code(code)
            context.set_details(text)
        seconds = time.perf_counter() - begun
        counter.end(call.code, len(response), seconds)
        if call.fields is not None:
            _log_call(path, call, len(request), len(response), seconds)
        return response

    return handle


def _log_call(path: str, call: Call, received: int, sent: int, seconds: float) -> None:
    log_event(
        _log,
        logging.DEBUG,
        "call",
        method=path.rpartition("/")[2],
        code=code_name(call.code),
        milliseconds=round(seconds * 1000, 3),
        received_bytes=received,
        sent_bytes=sent,
        **(call.fields or {}),
    )


def as_op_error(error: Exception, path: str) -> OpError:
    """Convert an exception to an `OpError`; an unexpected one is logged with its traceback."""
    if isinstance(error, OpError):
        return error
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(f"out of memory in {path}: {error}")
    _log.error("%s failed", path, exc_info=error)
    return InternalError(f"{path} failed: {type(error).__name__}: {error}")
