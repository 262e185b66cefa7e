"""`Connection`: gRPC calls to one task, which fail when the task stops responding."""

from __future__ import annotations

import copy
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from graphmill.errors import CancelledError, OpError, UnavailableError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.status import error_from_receive, error_from_rpc
from graphmill_plugins.distributed.credentials import new_channel
from graphmill_plugins.distributed.heartbeat import Heartbeat, unwatch, watch
from graphmill_plugins.distributed.local_socket.local_client import (
    CANCELLED_HERE,
    LOST,
    MAX_REQUEST,
    LocalClient,
)
from graphmill_plugins.distributed.transfer.host_identity import host_identity
from graphmill_plugins.distributed.wire.methods import LOCAL_ADDRESS_PATH, WORKER_METHODS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphmill_plugins.distributed.credentials import Credentials
    from graphmill_plugins.distributed.local_socket.frames import CallFailure
    from graphmill_plugins.distributed.wire.methods import Method

_log = logging.getLogger("graphmill.server")

BACK_OFF_OPTIONS: Final = (
    # Calls fail while gRPC backs off, even if the task is there again: by default two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
"""The gRPC options by which a task that was restarted is found again, within 0.25 s."""

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Proxies that the environment configures must not be used within a cluster.
    ("grpc.enable_http_proxy", 0),
    ("grpc.min_reconnect_backoff_ms", 2000),  # the time that an attempt to connect may take
    *BACK_OFF_OPTIONS,
)
"""The gRPC options of connections between the tasks of a cluster."""

_HEALTH_CHECK: Final = WORKER_METHODS["GetStatus"].path  # TensorFlow's servers answer it too
_NOT_HEARD: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)
"""Statuses that gRPC may have created on this side instead of receiving them."""


class _Channel:
    """A channel and its methods.

    Attributes:
        methods: callables whose outcome another thread reports, by name.
        streams: callables whose responses the calling thread reads, by name.
        end: the error of calls after it was closed; None while it is open.
        local: the local socket of the task, if it is on this machine; used instead of gRPC.
        local_address: the method that asks for the socket; None if that is not to be asked.
    """

    __slots__ = ("ask", "channel", "end", "local", "local_address", "methods", "streams")

    def __init__(
        self,
        address: str,
        options: Collection[Any],
        compression: Any,
        methods: Collection[Method],
        credentials: Credentials | None,
        may_be_local: bool,
    ) -> None:
        self.end: OpError | None = None
        self.local: LocalClient | None = None
        self.channel = new_channel(address, options, compression, credentials)
        self.methods = {m.name: self.channel.unary_unary(m.path) for m in methods}
        self.streams = {m.name: self.channel.unary_stream(m.path) for m in methods}
        self.ask = self.channel.unary_unary(_HEALTH_CHECK)
        self.local_address = self.channel.unary_unary(LOCAL_ADDRESS_PATH) if may_be_local else None

    def close(self, end: OpError) -> None:
        """End all calls with an error."""
        self.end = end
        self.local_address = None
        self.channel.close()
        if self.local is not None:
            self.local.close()

    def error(self) -> OpError:
        """Return the error of a call after the channel was closed."""
        return copy.copy(self.end) or CancelledError("the connection has been closed")


class Connection:
    """The calls of this process to one task.

    A task that is silent for too long while calls are in flight fails these with UnavailableError.
    Its network connection is not used again, because it may be half-open; later calls create a
    new one.

    Args:
        name: the task and its address, for messages.
        address: `HOST:PORT`.
        methods: the methods that are called.
        silence: the number of seconds for which the task may be silent; 0 for no limit.
        options: those of the channel.
        compression: that of the channel.
        where: the text after the method in messages; by default "of" the name.
        credentials: for TLS; None for connections without TLS.
        may_be_local: whether calls may go over a local socket to a task on this machine, which then
            takes them from other tasks only.

    Threads: any may call; `_lock` guards the change of the channel.
    """

    def __init__(
        self,
        name: str,
        address: str,
        methods: Collection[Method],
        silence: float,
        options: Collection[Any] = CHANNEL_OPTIONS,
        compression: Any = None,
        where: str | None = None,
        credentials: Credentials | None = None,
        *,
        may_be_local: bool = False,
    ) -> None:
        self.name = name
        self._may_be_local = may_be_local and credentials is None and bool(host_identity())
        self._where = where or f"of {name}"
        self._address = address
        self._methods = methods
        self._options = tuple(options)
        self._compression = compression
        self._lock = threading.Lock()
        self._is_closed = False
        self._credentials = credentials
        self._num_lost = 0
        self._health_check: Any = None
        self._paths = {method.name: method.path for method in methods}
        self._channel = self._new_channel(self._options)
        self._heartbeat = Heartbeat(silence, self._ask, self._give_up)
        watch(self._heartbeat)

    @property
    def last_heartbeat(self) -> float | None:
        """The time of the last message from the task, by `time.time`; None for none."""
        heard_at = self._heartbeat.heard_at
        return None if heard_at is None else time.time() - (time.monotonic() - heard_at)

    def start(
        self,
        method: str,
        data: bytes,
        done: Callable[[bytes | None, OpError | None], None],
        *,
        waits: bool = False,
        is_watched: bool = True,
    ) -> Callable[[], None]:
        """Start a call; return a function that cancels it.

        Args:
            method: its name.
            data: the request.
            done: receives the response or the error; called once, perhaps before this returns.
            waits: whether to wait for a task that has not started yet.
            is_watched: whether the call fails when the task is silent.
        """
        channel = self._channel
        local = channel.local
        if local is not None and len(data) <= MAX_REQUEST:
            withdraw = self._start_local(channel, local, method, data, done, is_watched=is_watched)
            if withdraw is not None:
                return withdraw
        try:
            future = channel.methods[method].future(data, wait_for_ready=waits)
        except ValueError:  # what grpcio raises for a channel that was closed
            done(None, channel.error())
            return _nothing
        if is_watched:
            self._heartbeat.begin(future)

        def finished(future: Any) -> None:
            self._heartbeat.end(future)
            try:
                response = self._outcome(future, channel, method)
            except OpError as error:
                done(None, error)
            else:
                done(response, None)

        future.add_done_callback(finished)
        cancel: Callable[[], None] = future.cancel
        return cancel

    def _start_local(
        self,
        channel: _Channel,
        local: LocalClient,
        method: str,
        data: bytes,
        done: Callable[[bytes | None, OpError | None], None],
        *,
        is_watched: bool,
    ) -> Callable[[], None] | None:
        """Start a call over the local socket; None if the socket is not connected any longer."""
        call = object()
        if is_watched:
            self._heartbeat.begin(call)

        def finished(response: bytes | None, failure: CallFailure | None) -> None:
            self._heartbeat.end(call)
            if failure is None:
                self._heartbeat.heard()
                done(response, None)
            else:
                done(None, self._local_error(channel, method, failure))

        withdraw = local.start(self._paths[method], data, finished)
        if withdraw is None:
            self._heartbeat.end(call)
        return withdraw

    def _local_error(self, channel: _Channel, method: str, failure: CallFailure) -> OpError:
        if failure is CANCELLED_HERE:
            return CancelledError(f"{method} {self._where} was cancelled")
        if failure is LOST:
            return channel.error() if channel.end is not None else self.error_of(failure, method)
        self._heartbeat.heard()
        return self.error_of(failure, method)

    def _ask_local_address(self, channel: _Channel) -> None:
        """Ask the task for its local socket; later calls use that."""
        with self._lock:
            ask, channel.local_address = channel.local_address, None
        if ask is None:
            return
        try:
            future = ask.future(host_identity())
        except ValueError:
            return  # the channel has been closed

        def answered(future: Any) -> None:
            code = future.code()
            if code is grpc.StatusCode.OK and future.result():
                self._connect_locally(channel, future.result())
            elif code in _NOT_HEARD and channel.end is None:
                channel.local_address = ask  # asked again after another call

        future.add_done_callback(answered)

    def _connect_locally(self, channel: _Channel, address: bytes) -> None:
        def lost(local: LocalClient) -> None:
            with self._lock:
                if channel.local is local:
                    channel.local = None

        try:
            local = LocalClient(address, lost)
        except OSError as error:  # the tasks' containers share processes, but no network
            log_event(
                _log, logging.INFO, "local socket not reachable", task=self.name, error=str(error)
            )
            return
        with self._lock:
            is_open = channel is self._channel and not self._is_closed
            if is_open:
                channel.local = local
        if not is_open:
            local.close()

    def call(self, method: str, send: Callable[[Any], bytes]) -> bytes:
        """Make a call in this thread; return the response.

        Args:
            method: its name.
            send: calls the given method of grpcio, which streams responses.

        Raises:
            OpError: the connection was closed, or the task is silent.
            grpc.RpcError: the call failed.
        """
        channel, call = self._channel, object()
        self._heartbeat.begin(call)
        try:
            response = send(channel.streams[method])
        except ValueError:
            if channel.end is None:
                raise
            raise channel.error() from None
        except grpc.RpcError as failure:
            if failure.code() not in _NOT_HEARD:
                self._heartbeat.heard()
            if failure.code() is grpc.StatusCode.CANCELLED and channel.end is not None:
                raise channel.error() from None
            raise
        finally:
            self._heartbeat.end(call)
        self._heartbeat.heard()
        return response

    def error_of(self, failure: Any, method: str) -> OpError:
        """Return the typed error of a call that failed."""
        where = f"{method} {self._where}"
        if failure.code() is grpc.StatusCode.UNAVAILABLE:
            where = f"{where}; {self._heartbeat}"
        make_error = error_from_receive if method == "RecvTensor" else error_from_rpc
        return make_error(failure, where)

    def close(self, reason: OpError | None = None) -> None:
        """Fail all current and later calls.

        Args:
            reason: their error; by default CancelledError.
        """
        unwatch(self._heartbeat)
        end = reason or CancelledError(f"the connection to {self.name} has been closed")
        with self._lock:
            self._is_closed = True
        self._channel.close(end)

    def _outcome(self, future: Any, channel: _Channel, method: str) -> bytes:
        """Return the response of a call.

        Raises:
            OpError: it failed.
        """
        code = future.code()
        if code not in _NOT_HEARD:
            self._heartbeat.heard()
        if code is grpc.StatusCode.OK:
            if channel.local_address is not None:
                self._ask_local_address(channel)
            response: bytes = future.result()
            return response
        if code is grpc.StatusCode.CANCELLED and channel.end is not None:
            raise channel.error()
        if future.cancelled():
            raise CancelledError(f"{method} {self._where} was cancelled")
        raise self.error_of(future, method)

    def _new_channel(self, options: Collection[Any]) -> _Channel:
        return _Channel(
            self._address,
            options,
            self._compression,
            self._methods,
            self._credentials,
            self._may_be_local,
        )

    def _ask(self) -> None:
        """Send a health check to the task, unless one is in flight."""
        if self._health_check is not None and not self._health_check.done():
            return
        try:
            self._health_check = self._channel.ask.future(b"")
        except ValueError:
            return  # the connection has just been closed
        self._health_check.add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        if future.code() not in _NOT_HEARD:
            self._heartbeat.heard()

    def _give_up(self) -> None:
        """Fail the calls in flight, and create a new channel."""
        end = UnavailableError(
            f"{self.name} has been silent for {self._heartbeat.seconds:g} s while calls waited for "
            f"it; {self._heartbeat}. Check whether its process was stopped, or its network was lost"
        )
        with self._lock:
            if self._is_closed:
                return
            lost = self._channel
            self._num_lost += 1
            # gRPC gives channels with the same options the same network connection.
            options = (*self._options, ("graphmill.connection", self._num_lost))
            self._channel = self._new_channel(options)
            self._health_check = None
        lost.close(end)


def _nothing() -> None:
    """Do nothing: the call was not sent."""
