"""`MasterChannel`: calls from one session to its master.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_remote_master.cc`. Each session has a
channel of its own, so that closing it cancels the session's calls and no others; gRPC shares one
connection between all channels of a process to the same address.
"""

from __future__ import annotations

import itertools
import re
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.experimental

from graphmill.errors import (
    CancelledError,
    ClosedSessionError,
    InternalError,
    InvalidArgumentError,
)
from graphmill.spi.process import DeferredInterrupt

from ..connection import BACK_OFF_OPTIONS, Connection
from ..credentials import credentials_of
from ..heartbeat import silence_seconds
from ..wire.methods import MASTER_METHODS

if TYPE_CHECKING:
    from graphmill.spi.protos import proto

SCHEME: Final = "grpc://"
CLOSED: Final = "Session has been closed."

_ADDRESS: Final = re.compile(r"(?P<host>[^\s/:]+|\[[0-9A-Fa-f:.%]+\]):(?P<port>\d{1,5})|unix:\S+")
_MAX_PORT: Final = 65535
# A request whose status is UNAVAILABLE was not accepted, and is sent again with the same request
# id: ten times, within about 50 ms.
_RESENDS: Final = 10
_RESEND_SECONDS: Final = 0.005
_RECONNECT_SECONDS: Final = 0.5
"""The seconds in which a call without a connection is retried.

Channels to one address share their connection, and the pause after an attempt to connect that
failed (`BACK_OFF_OPTIONS`). Meanwhile calls end with that failure, even if the master runs again.
"""
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.min_reconnect_backoff_ms", 100),
    *BACK_OFF_OPTIONS,
    (grpc.experimental.ChannelOptions.SingleThreadedUnaryStream, 1),
)
_COMPRESSIONS: Final = {
    "": grpc.Compression.NoCompression,
    "gzip": grpc.Compression.Gzip,
    "deflate": grpc.Compression.Deflate,
}


class MasterChannel:
    """Calls the methods of one master, with serialized messages.

    Threads: any number may call; `close` ends their calls.

    Args:
        target: `grpc://HOST:PORT`.
        config: its `rpc_options` choose the compression.

    Raises:
        InvalidArgumentError: the target, the compression, the credentials or the allowed silence is
            malformed.

    Attributes:
        target: as given.
    """

    def __init__(self, target: str, config: proto.ConfigProto) -> None:
        self.target = target
        self._connection = Connection(
            f"the master at {target}",
            address_of(target),
            MASTER_METHODS.values(),
            silence_seconds(config),
            _OPTIONS,
            _compression(config),
            where=f"at {target}",
            credentials=credentials_of(config),
        )
        self._closed = threading.Event()

    def call(self, method: str, request: bytes, timeout: float | None) -> bytes:
        """Call a method and return its response; the call is cancelled if this is interrupted.

        Args:
            method: its name, as `RunStep`.
            request: the serialized request.
            timeout: in seconds, for all attempts together; None for no limit.

        Raises:
            CancelledError: the channel was closed.
            UnavailableError: the master is down, or has been silent for too long.
            OpError: the call failed.
        """
        begun = time.monotonic()
        deadline = None if timeout is None else begun + timeout
        for attempt in itertools.count():
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            try:
                return self._connection.call(method, partial(_answer, request, left))
            except grpc.RpcError as failure:
                is_last = attempt >= _RESENDS and not _may_connect(failure, begun)
                if is_last or failure.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise self._connection.error_of(failure, method) from None
                if self._closed.wait(_RESEND_SECONDS):
                    raise ClosedSessionError(CLOSED) from None
        raise AssertionError("the last attempt returns or raises")

    def close(self) -> None:
        """Cancel all calls; a second call does nothing."""
        self._closed.set()
        self._connection.close(CancelledError(CLOSED))


def _may_connect(failure: grpc.RpcError, begun: float) -> bool:
    """Return whether a call failed without a connection, which another attempt may make."""
    is_unconnected = "failed to connect" in (failure.details() or "")
    return is_unconnected and time.monotonic() - begun < _RECONNECT_SECONDS


def _answer(request: bytes, timeout: float | None, method: Any) -> bytes:
    """Return the response of a call, which is cancelled if an interrupt ends the wait for it.

    The call is made as one that streams its (single) response, which this thread polls. gRPC's
    blocking calls are as fast, but continue after an interrupt; its futures are completed by
    another thread.
    """
    call = None
    try:
        with DeferredInterrupt():  # else the call might begin, and nobody could cancel it
            call = method(request, timeout=timeout)
        answers: list[bytes] = list(call)
    except BaseException:
        if call is not None:
            call.cancel()  # where it failed there is nothing left to cancel
        raise
    if len(answers) != 1:
        raise InternalError(f"the master has sent {len(answers)} responses to a call, expected one")
    return answers[0]


def address_of(target: str) -> str:
    """Return the address in a target.

    Raises:
        InvalidArgumentError: the target is malformed.
    """
    address = target.removeprefix(SCHEME)
    parts = _ADDRESS.fullmatch(address)
    if not target.startswith(SCHEME) or parts is None or int(parts["port"] or 1) > _MAX_PORT:
        raise InvalidArgumentError(
            f"malformed target {target!r}; expected grpc://HOST:PORT, such as grpc://127.0.0.1:7001"
        )
    return address


def _compression(config: proto.ConfigProto) -> grpc.Compression:
    name = config.rpc_options.compression_algorithm
    if name not in _COMPRESSIONS:
        raise InvalidArgumentError(
            f"unknown rpc_options.compression_algorithm {name!r}; expected 'gzip' or 'deflate'"
        )
    return _COMPRESSIONS[name]
