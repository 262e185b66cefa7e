"""From calls on the wire to methods of the services, and from what they raise to statuses."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc

from graphmill.errors import InternalError, OpError, ResourceExhaustedError
from graphmill_plugins.distributed.wire.status import grpc_status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Behaviour: TypeAlias = "Callable[[bytes, Call], bytes]"

_log = logging.getLogger("graphmill.server")


class Call:
    """One call of a client, as a service sees it.

    Args:
        context: grpcio's context of the call.
    """

    __slots__ = ("_context",)

    def __init__(self, context: grpc.ServicerContext) -> None:
        self._context = context

    def on_end(self, callback: Callable[[], None]) -> bool:
        """Have `callback` called when the call is over, or its client is gone.

        Returns:
            False if that is so already; `callback` is not called then.
        """
        return bool(self._context.add_callback(callback))


class Services(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """The methods of a server by path.

    Args:
        behaviours: what each method does with the bytes of a request.
    """

    def __init__(self, behaviours: Mapping[str, Behaviour]) -> None:
        self._handlers = {
            path: grpc.unary_unary_rpc_method_handler(answered(behaviour, path))
            for path, behaviour in behaviours.items()
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Return the handler of a method; None if there is none, which is UNIMPLEMENTED."""
        return self._handlers.get(handler_call_details.method)


def answered(behaviour: Behaviour, path: str) -> Callable[[bytes, Any], bytes]:
    """Return a handler that ends each call with a response or a status, and never raises."""

    def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
        try:
            return behaviour(request, Call(context))
        except Exception as error:  # noqa: BLE001 - whatever it is, a client waits for a status
            code, text = grpc_status(as_op_error(error, path))
            context.set_code(code)
            context.set_details(text)
            return b""

    return handle


def as_op_error(error: Exception, path: str) -> OpError:
    """Return an error with a code; one of ours or of a plugin's code is logged with its place."""
    if isinstance(error, OpError):
        return error
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(f"out of memory in {path}: {error}")
    _log.error("%s failed", path, exc_info=error)
    return InternalError(f"{path} failed: {type(error).__name__}: {error}")
