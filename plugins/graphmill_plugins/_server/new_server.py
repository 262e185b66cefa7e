"""`new_server`: a gRPC server that never queues a call behind one that waits."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, TypeAlias

import grpc

from graphmill_plugins._server.deferred_handler import BlockingHandlers
from graphmill_plugins._server.event_log import log_event

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill_plugins._server.call_threads import CallThreads
    from graphmill_plugins._server.completion_queue_server import CompletionQueueServer

    Server: TypeAlias = CompletionQueueServer | grpc.Server

_log = logging.getLogger("graphmill.server")


def new_server(
    threads: CallThreads,
    handlers: Sequence[grpc.GenericRpcHandler],
    options: Sequence[tuple[str, int]],
    max_calls: int,
) -> Server:
    """Create a server.

    Args:
        threads: run the handlers.
        handlers: those of its methods, deferred ones (`DeferredHandler`) included.
        options: gRPC's options of a server.
        max_calls: how many calls may be handled at once; further ones fail with RESOURCE_EXHAUSTED.
    """
    try:
        from graphmill_plugins._server.completion_queue_server import CompletionQueueServer
    except (ImportError, AttributeError) as error:
        log_event(
            _log,
            logging.WARNING,
            "calls take longer",
            reason="this version of grpcio does not offer its completion queue",
            grpcio=grpc.__version__,
            error=str(error),
        )
        waiting = [BlockingHandlers(one) for one in handlers]
        return grpc.server(
            threads, handlers=waiting, options=options, maximum_concurrent_rpcs=max_calls
        )
    return CompletionQueueServer(threads, handlers, options, max_calls)
