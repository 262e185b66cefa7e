"""`LocalServer`: serve the calls of a machine's other tasks on a Unix domain socket."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import TYPE_CHECKING, Final

from graphmill.errors import RESOURCE_EXHAUSTED, UNAVAILABLE, UNIMPLEMENTED, InvalidArgumentError
from graphmill_plugins._server.status import error_message
from graphmill_plugins.distributed.local_socket.frame_socket import FrameSocket, is_own_process
from graphmill_plugins.distributed.local_socket.frames import (
    CANCEL,
    REQUEST,
    RESPONSE,
    CallFailure,
    failure,
    frame,
    read_request,
)
from graphmill_plugins.distributed.server.dispatch import CallLog, carry_out
from graphmill_plugins.distributed.transfer.host_identity import host_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.errors import OpError
    from graphmill_plugins._server.call_threads import CallThreads
    from graphmill_plugins.distributed.local_socket.frames import Frame
    from graphmill_plugins.distributed.monitoring.call_counters import CallCounters
    from graphmill_plugins.distributed.server.dispatch import Behaviour, Call, Starter

_BACKLOG: Final = 128


class LocalServer:
    """The calls that other tasks of this machine make over a local socket.

    Args:
        behaviours: the implementation of each method by path; each runs in a thread of its own.
        starters: implementations by path that start a call and reply later, from any thread.
        counters: count the calls.
        threads: run the behaviours.
        max_calls: how many calls may run or wait.

    Threads: one accepts connections, and one reads each; `_lock` guards connections and the number
    of calls.
    """

    def __init__(
        self,
        behaviours: Mapping[str, Behaviour],
        starters: Mapping[str, Starter],
        counters: CallCounters,
        threads: CallThreads,
        max_calls: int,
    ) -> None:
        self.behaviours = behaviours
        self.starters = starters
        self.names = {path.encode(): path for path in behaviours}
        self.counters = counters
        self.threads = threads
        self._max_calls = max_calls
        self._lock = threading.Lock()
        self._none_in_flight = threading.Condition(self._lock)
        self._num_calls = 0
        self._is_stopping = False
        self._connections: set[_ServedConnection] = set()
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._name = b""

    def start(self) -> None:
        """Listen, if the system distinguishes processes of this machine from those of others."""
        if not host_identity():
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = b"\0graphmill-" + os.urandom(16).hex().encode()  # no file: nothing is left behind
        sock.bind(name)
        sock.listen(_BACKLOG)
        self._socket, self._name = sock, name
        self._thread = threading.Thread(
            target=self._accept, args=(sock,), name="graphmill-local-accept", daemon=True
        )
        self._thread.start()

    def address(self, data: bytes, call: Call) -> bytes:
        """Return the name of the socket if the caller is on this machine; else nothing.

        Args:
            data: the `host_identity` of the caller.
            call: its call.
        """
        del call
        return self._name if self._name and data == host_identity() else b""

    def stop_accepting(self) -> None:
        """Refuse further calls."""
        with self._lock:
            self._is_stopping = True

    def stop(self, grace: float | None) -> None:
        """Wait for the calls in flight, then end all connections; safe to call twice.

        Args:
            grace: for how many seconds to wait; None for none.
        """
        self.stop_accepting()
        deadline = time.monotonic() + (grace or 0.0)
        with self._lock:
            self._none_in_flight.wait_for(
                lambda: not self._num_calls, max(0.0, deadline - time.monotonic())
            )
            connections = list(self._connections)
            listening, self._socket = self._socket, None
        if listening is not None:
            listening.shutdown(socket.SHUT_RDWR)  # closing alone does not end an `accept`
        if self._thread is not None:
            self._thread.join()
        for connection in connections:
            connection.close()

    def begin_call(self) -> CallFailure | None:
        """Count a call; return why it is refused, or None."""
        with self._lock:
            if self._is_stopping:
                return CallFailure(UNAVAILABLE, "the server is stopping")
            if self._num_calls >= self._max_calls:
                text = f"{self._num_calls} calls run or wait on this server, which is its limit"
                return CallFailure(RESOURCE_EXHAUSTED, text)
            self._num_calls += 1
            return None

    def end_call(self) -> None:
        """Count the end of a call."""
        with self._lock:
            self._num_calls -= 1
            if not self._num_calls and self._is_stopping:
                self._none_in_flight.notify_all()

    def forget(self, connection: _ServedConnection) -> None:
        """Drop a connection that has ended."""
        with self._lock:
            self._connections.discard(connection)

    def _accept(self, sock: socket.socket) -> None:
        while True:
            try:
                client, _ = sock.accept()
            except OSError:  # the server has stopped
                sock.close()
                return
            if not is_own_process(client):
                client.close()
                continue
            with self._lock:
                if self._is_stopping:
                    client.close()
                    continue
                connection = _ServedConnection(self, client)
                self._connections.add(connection)
            connection.start()


class _ServedCall:
    """One call; see `dispatch.Call`."""

    __slots__ = ("_callback", "_has_ended", "_lock", "code", "fields")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._has_ended = False
        self._callback: Callable[[], None] | None = None
        self.code = 0
        self.fields: dict[str, object] | None = None

    def on_end(self, callback: Callable[[], None]) -> bool:
        """Call `callback` if the call is cancelled, or its client has disconnected.

        Returns:
            False if that has happened; then `callback` is not called.
        """
        with self._lock:
            if not self._has_ended:
                self._callback = callback
            return not self._has_ended

    def end(self) -> None:
        """Call the callback: nobody waits for the response any longer."""
        with self._lock:
            self._has_ended = True
            callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class _ServedConnection:
    """The calls of one client.

    Threads: `_on_frame` and `_on_end` run in the thread that reads; calls end in any.
    """

    def __init__(self, server: LocalServer, sock: socket.socket) -> None:
        self._server = server
        self._calls: dict[int, _ServedCall] = {}
        self._socket = FrameSocket(sock, self._on_frame, self._on_end)

    def start(self) -> None:
        """Start to read."""
        self._socket.start()

    def close(self) -> None:
        """End the connection, and cancel its calls."""
        self._socket.close()
        self._socket.join()

    def _on_frame(self, received: Frame) -> None:
        if received.kind == REQUEST:
            self._begin(received.call_id, received.content)
        elif received.kind == CANCEL:
            call = self._calls.get(received.call_id)
            if call is not None:
                call.end()
        else:
            raise InvalidArgumentError(f"a client sent an unexpected frame of kind {received.kind}")

    def _begin(self, call_id: int, content: bytes) -> None:
        server = self._server
        path, data = read_request(content)
        refusal = server.begin_call()
        if refusal is not None:
            self._send(failure(call_id, refusal))
            return
        call = self._calls[call_id] = _ServedCall()
        name = server.names.get(path)
        if name is None:
            text = f"this server has no method {path.decode('utf-8', 'replace')!r}"
            self._finish(call_id, failure(call_id, CallFailure(UNIMPLEMENTED, text)))
            return
        log = CallLog(name, server.counters.by_path[name], call, data)
        starter = server.starters.get(name)
        if starter is not None:

            def reply(response: bytes, error: OpError | None) -> None:
                log.end(len(response), error)
                self._end(call_id, response, error)

            if starter(data, call, reply, server.threads.submit):
                return
        server.threads.submit(self._run, call_id, call, data, log)

    def _run(self, call_id: int, call: _ServedCall, data: bytes, log: CallLog) -> None:
        behaviour = self._server.behaviours[log.path]
        self._end(call_id, *carry_out(behaviour, data, call, log))

    def _end(self, call_id: int, response: bytes, error: OpError | None) -> None:
        if error is None:
            answer = frame(RESPONSE, call_id, response)
        else:
            status = CallFailure(error.code, error_message(error), error.is_derived)
            answer = failure(call_id, status)
        self._finish(call_id, answer)

    def _finish(self, call_id: int, answer: bytes) -> None:
        """Send the outcome of a call, and count its end afterwards."""
        self._calls.pop(call_id, None)
        self._send(answer)
        self._server.end_call()

    def _send(self, data: bytes) -> None:
        try:
            self._socket.send(data)
        except OSError:
            return  # the client has disconnected: nobody waits for the answer

    def _on_end(self) -> None:
        self._server.forget(self)
        for call in list(self._calls.values()):
            call.end()
