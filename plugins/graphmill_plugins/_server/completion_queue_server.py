"""`CompletionQueueServer`: serve gRPC calls in the thread that receives them.

`grpc.server` has one thread that polls gRPC's completion queue. It passes each call to a thread of
a pool, which waits until the polling thread has received the request. With the GIL these two
switches between threads cost more than a small step. Here the thread that receives a request runs
its handler, while another thread polls.

gRPC's core is reached through `grpc._cython.cygrpc`, as by grpcio itself. That module is not
public. If a version of grpcio lacks what is used here, importing this module fails, and servers use
`grpc.server` instead.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import grpc
from grpc._cython import cygrpc

from graphmill_plugins._server.completion_queue_call import CompletionQueueCall, refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill_plugins._server.call_threads import CallThreads
    from graphmill_plugins._server.completion_queue_call import Work

_log = logging.getLogger("graphmill.server")

MAX_POLLING: Final = 2
"""The number of threads that poll: if one starts to run a handler, the other one remains."""

_QUEUE_SHUTDOWN: Final = cygrpc.CompletionType.queue_shutdown


class _CallDetails(NamedTuple):
    """The `grpc.HandlerCallDetails` of a call."""

    method: str
    invocation_metadata: Any


class CompletionQueueServer:
    """A server of methods with one request, with the methods of `grpc.Server` that it needs.

    Args:
        threads: run the loop that polls. A thread of them stays with a call that waits.
        handlers: asked for the handler of each method, in order.
        options: gRPC's options of a server.
        max_calls: how many calls may be handled at once; further ones fail with RESOURCE_EXHAUSTED.

    Threads: any may call anything; `_lock` guards the counts and the state of the server.
    """

    def __init__(
        self,
        threads: CallThreads,
        handlers: Iterable[grpc.GenericRpcHandler],
        options: Sequence[tuple[str, int]],
        max_calls: int,
    ) -> None:
        self._threads = threads
        self._handlers = list(handlers)
        self._max_calls = max_calls
        self._queue = cygrpc.CompletionQueue()
        self._core = cygrpc.Server(tuple(options), False)
        self._core.register_completion_queue(self._queue)
        self._lock = threading.Lock()
        self._num_polling = 0
        self._num_calls = 0  # whose handlers run
        self._num_open = 0  # calls that the core still processes, and the one it is asked for
        self._has_begun_shutdown = self._is_shut_down = False
        self._is_stopping = False
        self._drained = threading.Event()
        self._stopped = threading.Event()

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers; see `grpc.Server`."""
        self._handlers.extend(handlers)

    def add_registered_method_handlers(
        self, service: str, handlers: Mapping[str, grpc.RpcMethodHandler]
    ) -> None:
        """Do nothing: generated code adds the same handlers as generic ones."""

    def add_insecure_port(self, address: str) -> int:
        """Listen on an address; return the port.

        Raises:
            RuntimeError: it cannot.
        """
        return _bound(address, self._core.add_http2_port(address.encode()))

    def add_secure_port(self, address: str, credentials: grpc.ServerCredentials) -> int:
        """Listen on an address with TLS; return the port.

        Raises:
            RuntimeError: it cannot.
        """
        of_core = credentials._credentials  # noqa: SLF001 - as grpcio's own server does
        return _bound(address, self._core.add_http2_port(address.encode(), of_core))

    def start(self) -> None:
        """Start accepting calls."""
        self._core.start()
        self._core.request_call(self._queue, self._queue, self._on_call)
        self._num_open = 1
        self._num_polling = MAX_POLLING
        for _ in range(MAX_POLLING):
            self._threads.submit(self._poll)

    def stop(self, grace: float | None) -> threading.Event:
        """Refuse new calls with UNAVAILABLE, and cancel the others after `grace` seconds.

        Calls are still taken from gRPC's core until the running ones have ended: a call that is in
        the core's queue when it shuts down would stay there, and keep one of the core's threads
        busy, until all calls are cancelled.

        Returns:
            An event that is set when all calls have ended.
        """
        with self._lock:
            self._is_stopping = True
            if self._num_open <= 1:
                self._drained.set()
        if grace:
            threading.Thread(
                target=self._shut_down, args=(grace,), name="graphmill-grace", daemon=True
            ).start()
        else:
            self._shut_down(0.0)
        return self._stopped

    def _shut_down(self, grace: float) -> None:
        """Shut the core down when no call is open, or after `grace` seconds."""
        self._drained.wait(grace)
        with self._lock:  # held meanwhile, as `_free_if_unused` frees what this uses
            if not self._has_begun_shutdown:
                self._has_begun_shutdown = True
                self._core.shutdown(self._queue, self._on_shutdown)
            if not self._stopped.is_set():
                self._core.cancel_all_calls()

    def _poll(self) -> None:
        """Process events until the server has stopped, or enough other threads do."""
        poll = self._queue.poll
        while True:
            event = poll()
            if event.completion_type == _QUEUE_SHUTDOWN:
                return
            work = _process(event)
            del event  # it may hold the last reference to a call, for which the core waits
            if work is None:
                continue
            self._leave()
            work()
            del work
            if not self._return():
                return

    def _leave(self) -> None:
        """Note that this thread does not poll, and ensure that another one does."""
        with self._lock:
            self._num_polling -= 1
            is_last = not self._num_polling
            if is_last:
                self._num_polling = 1
        if is_last:
            self._threads.submit(self._poll)

    def _return(self) -> bool:
        """Let this thread poll again; return False if there are enough others."""
        with self._lock:
            is_needed = self._num_polling < MAX_POLLING
            self._num_polling += is_needed
            return is_needed

    def _on_call(self, event: Any) -> None:
        """Start a call that has arrived, and request the next one."""
        if not event.success:  # the server is stopping
            self._on_ended()
            return
        with self._lock:
            is_stopping = self._is_stopping
            if not self._has_begun_shutdown:
                self._core.request_call(self._queue, self._queue, self._on_call)
                self._num_open += 1
            is_full = self._num_calls >= self._max_calls
        handler = self._handler_of(event)
        if handler is None:
            code, text = grpc.StatusCode.UNIMPLEMENTED, "the server has no such method"
            refuse(event.call, code, text, self._on_ended)
        elif is_stopping:
            refuse(
                event.call, grpc.StatusCode.UNAVAILABLE, "the server is stopping", self._on_ended
            )
        elif is_full:
            text = f"{self._max_calls} calls run or wait on this server, which is its limit"
            refuse(event.call, grpc.StatusCode.RESOURCE_EXHAUSTED, text, self._on_ended)
        else:
            with self._lock:
                self._num_calls += 1
            call = CompletionQueueCall(event, handler, self._on_handled, self._on_ended)
            call.start()

    def _handler_of(self, event: Any) -> grpc.RpcMethodHandler | None:
        details = _CallDetails(
            event.call_details.method.decode(errors="replace"), event.invocation_metadata
        )
        for generic in self._handlers:
            handler = generic.service(details)
            if handler is not None:
                return handler
        return None

    def _on_handled(self) -> None:
        with self._lock:
            self._num_calls -= 1

    def _on_ended(self) -> None:
        with self._lock:
            self._num_open -= 1
            if self._is_stopping and self._num_open <= 1:
                self._drained.set()
            self._free_if_unused()

    def _on_shutdown(self, _event: Any) -> None:
        """Note that the core has shut down; some events of calls may still be in the queue."""
        with self._lock:
            self._is_shut_down = True
            self._free_if_unused()

    def _free_if_unused(self) -> None:
        if self._is_shut_down and not self._num_open:
            self._core.destroy()
            self._queue.shutdown()  # no operation may start any longer
            self._stopped.set()


def _process(event: Any) -> Work | None:
    """Call the handler of an event; return work that may take long, or None."""
    try:
        work: Work | None = event.tag(event)
    except Exception:  # noqa: BLE001 - without this thread the server might not poll
        _log.exception("an event of a call could not be processed")
        return None
    return work


def _bound(address: str, port: int) -> int:
    if not port:
        raise RuntimeError(f"cannot listen on {address}")
    return port
