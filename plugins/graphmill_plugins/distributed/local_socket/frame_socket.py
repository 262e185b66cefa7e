"""`FrameSocket`: send and receive frames over a connected socket, from any thread."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.distributed.local_socket.frames import FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill_plugins.distributed.local_socket.frames import Frame

_CHUNK: Final = 1 << 18
_CREDENTIALS: Final = struct.Struct("3i")


class FrameSocket:
    """One end of a connection.

    Sending never waits for the peer: what the system does not take at once is sent by another
    thread. So the thread that reads may send, and two ends cannot block each other.

    Args:
        sock: a connected socket, which is closed with this.
        on_frame: receives each frame, in the thread that reads.
        on_end: called once in that thread when nothing more will arrive.

    Threads: any may send and close; `_lock` guards the queue of unsent data.
    """

    def __init__(
        self, sock: socket.socket, on_frame: Callable[[Frame], None], on_end: Callable[[], None]
    ) -> None:
        self._sock = sock
        self._on_frame = on_frame
        self._on_end = on_end
        self._lock = threading.Lock()
        self._unsent: deque[bytes] = deque()
        self._has_writer = False
        self._is_closed = False
        self._reader = threading.Thread(target=self._read, name="graphmill-local", daemon=True)

    def start(self) -> None:
        """Start to read."""
        self._reader.start()

    def send(self, data: bytes) -> None:
        """Send an encoded frame.

        Raises:
            OSError: the connection has ended; the peer has not received the frame.
        """
        with self._lock:
            if self._is_closed:
                raise BrokenPipeError("the connection has been closed")
            if not self._unsent:
                try:
                    sent = self._sock.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    sent = 0
                if sent == len(data):
                    return
                data = data[sent:]
            self._unsent.append(data)
            if not self._has_writer:
                self._has_writer = True
                threading.Thread(
                    target=self._write, name="graphmill-local-send", daemon=True
                ).start()

    def close(self) -> None:
        """End the connection; the reading thread notices and ends."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the peer was faster

    def join(self) -> None:
        """Wait until the reading thread has ended, unless this is it."""
        if self._reader is not threading.current_thread() and self._reader.ident is not None:
            self._reader.join()

    def _write(self) -> None:
        """Send what is queued; a frame stays in the queue until it has been sent."""
        while True:
            with self._lock:
                if not self._unsent:
                    self._has_writer = False
                    return
                data = self._unsent[0]
            try:
                self._sock.sendall(data)
            except OSError:  # the reading thread reports the end
                self.close()
                return
            with self._lock:
                self._unsent.popleft()

    def _read(self) -> None:
        reader = FrameReader()
        try:
            while data := self._sock.recv(_CHUNK):
                self._deliver(reader.feed(data))
        except (OSError, InvalidArgumentError):
            pass  # a malformed frame ends the connection as well
        finally:
            self.close()
            self._on_end()
            self._sock.close()

    def _deliver(self, frames: Iterable[Frame]) -> None:
        """Pass frames on; the thread keeps none of them while it waits for the next one."""
        for frame in frames:
            self._on_frame(frame)


def is_own_process(sock: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this process's user."""
    peer = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(peer)
    return bool(user == os.geteuid())
