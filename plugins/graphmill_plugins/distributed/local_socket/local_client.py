"""`LocalClient`: calls to a task of the same machine over its local socket."""

from __future__ import annotations

import contextlib
import itertools
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from graphmill.errors import CANCELLED, UNAVAILABLE, InvalidArgumentError
from graphmill_plugins.distributed.local_socket.frame_socket import FrameSocket, is_own_process
from graphmill_plugins.distributed.local_socket.frames import (
    CANCEL,
    FAILURE,
    RESPONSE,
    CallFailure,
    frame,
    read_failure,
    request,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.distributed.local_socket.frames import Frame

    Done = Callable[[bytes | None, CallFailure | None], None]

MAX_REQUEST: Final = 1 << 20
"""The maximum size of a request in bytes; gRPC sends larger ones."""

LOST: Final = CallFailure(UNAVAILABLE, "the connection to the task was lost")
CANCELLED_HERE: Final = CallFailure(CANCELLED, "the call was cancelled")


class LocalClient:
    """The calls of this process to one task over its local socket.

    Args:
        address: the name of the socket, as the task's `LocalServer` returns it.
        on_lost: called when the connection has ended, before calls in flight fail.

    Raises:
        OSError: the socket is not reachable, or belongs to another user.

    Threads: any may call; `dict.pop` decides which one ends a call.
    """

    def __init__(self, address: bytes, on_lost: Callable[[LocalClient], None]) -> None:
        self._on_lost = on_lost
        self._calls: dict[int, Done] = {}
        self._ids = itertools.count(1)
        self._cancelled: deque[Done] = deque()
        self._is_cancelling = threading.Lock()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(address)
            if not is_own_process(sock):
                raise PermissionError("the socket belongs to another user")
        except BaseException:
            sock.close()
            raise
        self._socket = FrameSocket(sock, self._on_frame, self._on_end)
        self._socket.start()

    def start(self, path: str, data: bytes, done: Done) -> Callable[[], None] | None:
        """Start a call.

        Args:
            path: the method, as `/tensorflow.WorkerService/RunGraph`.
            data: the serialized request.
            done: receives the response or the failure in another thread; called once.

        Returns:
            A function that cancels the call; None if the connection has ended, and the task has
            not received the request.
        """
        call_id = next(self._ids)
        self._calls[call_id] = done
        try:
            self._socket.send(request(call_id, path.encode(), data))
        except OSError:
            # If it is gone, the end of the connection has failed the call.
            if self._calls.pop(call_id, None) is not None:
                return None
        return lambda: self._cancel(call_id)

    def close(self) -> None:
        """End the connection; calls in flight fail with `LOST`."""
        self._socket.close()

    def join(self) -> None:
        """Wait until all calls have ended after `close`."""
        self._socket.join()

    def _cancel(self, call_id: int) -> None:
        done = self._calls.pop(call_id, None)
        if done is None:
            return
        with contextlib.suppress(OSError):  # without a connection nothing is left to cancel
            self._socket.send(frame(CANCEL, call_id))
        # Not in this thread: callers may hold locks that `done` takes.
        self._cancelled.append(done)
        if self._is_cancelling.acquire(blocking=False):
            threading.Thread(
                target=self._report_cancelled, name="graphmill-local-cancel", daemon=True
            ).start()

    def _report_cancelled(self) -> None:
        while True:
            while self._cancelled:
                self._cancelled.popleft()(None, CANCELLED_HERE)
            self._is_cancelling.release()
            # One that was added before the release may have found this thread still busy.
            if not self._cancelled or not self._is_cancelling.acquire(blocking=False):
                return

    def _on_frame(self, frame: Frame) -> None:
        """Pass on an outcome; that of a cancelled call is dropped.

        Raises:
            InvalidArgumentError: the frame is malformed.
        """
        if frame.kind not in (RESPONSE, FAILURE):
            raise InvalidArgumentError(f"a server sent an unexpected frame of kind {frame.kind}")
        failure = None if frame.kind == RESPONSE else read_failure(frame.content)
        done = self._calls.pop(frame.call_id, None)
        if done is not None:
            done(frame.content if failure is None else None, failure)

    def _on_end(self) -> None:
        self._on_lost(self)
        while self._calls:
            _, done = self._calls.popitem()
            done(None, LOST)
