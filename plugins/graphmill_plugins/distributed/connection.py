"""`Connection`: gRPC calls to one task, which fail when the task stops responding."""

from __future__ import annotations

import copy
import threading
import time
from typing import TYPE_CHECKING, Any, Final

import grpc

from graphmill.errors import CancelledError, OpError, UnavailableError
from graphmill_plugins.distributed.credentials import new_channel
from graphmill_plugins.distributed.heartbeat import Heartbeat, unwatch, watch
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS
from graphmill_plugins.distributed.wire.status import error_from_receive, error_from_rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from graphmill_plugins.distributed.credentials import Credentials
    from graphmill_plugins.distributed.wire.methods import Method

CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # The variables of the environment for proxies are not meant for a cluster's own calls.
    ("grpc.enable_http_proxy", 0),
    # A task that was restarted is found again within seconds, not within two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
"""How tasks of a cluster talk to each other."""

_QUESTION: Final = WORKER_METHODS["GetStatus"].path  # TensorFlow's servers answer it too
_NOT_HEARD: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)
"""Statuses that this end may have made itself."""


class _Channel:
    """A channel and its methods.

    Attributes:
        methods: for calls that another thread answers, by name.
        streams: for calls whose responses the calling thread takes, by name.
        end: what calls end with after it was closed; None while it is open.
    """

    __slots__ = ("ask", "channel", "end", "methods", "streams")

    def __init__(
        self,
        address: str,
        options: Collection[Any],
        compression: Any,
        methods: Collection[Method],
        credentials: Credentials | None,
    ) -> None:
        self.end: OpError | None = None
        self.channel = new_channel(address, options, compression, credentials)
        self.methods = {m.name: self.channel.unary_unary(m.path) for m in methods}
        self.streams = {m.name: self.channel.unary_stream(m.path) for m in methods}
        self.ask = self.channel.unary_unary(_QUESTION)

    def close(self, end: OpError) -> None:
        """End all calls with an error."""
        self.end = end
        self.channel.close()

    def error(self) -> OpError:
        """Return what one call ends with after the channel was closed."""
        return copy.copy(self.end) or CancelledError("the connection has been closed")


class Connection:
    """The calls of this process to one task.

    A task that is silent for too long while calls are in flight fails these with UnavailableError.
    Its network connection is not used again, as it may be one that nobody holds at the other end;
    later calls make a new one.

    Args:
        name: of the task, and where it is, for messages.
        address: `HOST:PORT`.
        methods: those that are called.
        silence: for how many seconds the task may be silent; 0 for any time.
        options: of the channel.
        compression: of the channel.
        where: what follows the method in messages; by default "of" the name.
        credentials: for TLS; None for connections without.

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
    ) -> None:
        self.name = name
        self._where = where or f"of {name}"
        self._address = address
        self._methods = methods
        self._options = tuple(options)
        self._compression = compression
        self._lock = threading.Lock()
        self._is_closed = False
        self._credentials = credentials
        self._num_lost = 0
        self._question: Any = None
        self._channel = _Channel(address, options, compression, methods, credentials)
        self._heartbeat = Heartbeat(silence, self._ask, self._give_up)
        watch(self._heartbeat)

    @property
    def last_heartbeat(self) -> float | None:
        """When the task was heard of last, as `time.time` counts; None for never."""
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
        """Begin a call; return what withdraws it.

        Args:
            method: its name.
            data: the request.
            done: takes the response or the error; called once, perhaps before this returns.
            waits: whether a task that is not there yet is waited for.
            is_watched: whether the call ends when the task is silent.
        """
        channel = self._channel
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
        withdraw: Callable[[], None] = future.cancel
        return withdraw

    def call(self, method: str, send: Callable[[Any], bytes]) -> bytes:
        """Make a call in this thread; return the response.

        Args:
            method: its name.
            send: calls grpcio's method that it is given, which streams responses.

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
        made = error_from_receive if method == "RecvTensor" else error_from_rpc
        return made(failure, where)

    def close(self, reason: OpError | None = None) -> None:
        """End all calls, and those that follow.

        Args:
            reason: what they end with; by default CancelledError.
        """
        unwatch(self._heartbeat)
        end = reason or CancelledError(f"the connection to {self.name} has been closed")
        with self._lock:
            self._is_closed = True
        self._channel.close(end)

    def _outcome(self, future: Any, channel: _Channel, method: str) -> bytes:
        """Return what a call gave.

        Raises:
            OpError: it failed.
        """
        code = future.code()
        if code not in _NOT_HEARD:
            self._heartbeat.heard()
        if code is grpc.StatusCode.OK:
            response: bytes = future.result()
            return response
        if code is grpc.StatusCode.CANCELLED and channel.end is not None:
            raise channel.error()
        if future.cancelled():
            raise CancelledError(f"{method} {self._where} was cancelled")
        raise self.error_of(future, method)

    def _ask(self) -> None:
        """Ask the task whether it is there, unless it owes an answer already."""
        if self._question is not None and not self._question.done():
            return
        try:
            self._question = self._channel.ask.future(b"")
        except ValueError:
            return  # the connection was closed just now
        self._question.add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        if future.code() not in _NOT_HEARD:
            self._heartbeat.heard()

    def _give_up(self) -> None:
        """End the calls in flight, and begin a new channel."""
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
            self._channel = _Channel(
                self._address, options, self._compression, self._methods, self._credentials
            )
            self._question = None
        lost.close(end)


def _nothing() -> None:
    """Withdraw a call that was not sent."""
