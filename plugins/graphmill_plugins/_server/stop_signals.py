"""Make SIGTERM and SIGINT end a wait."""

from __future__ import annotations

import select
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType


class StopSignal:
    """A flag that is set when the process is asked to stop.

    Threads: `wait` is for the main thread, in which Python calls handlers of signals.
    """

    def __init__(self, wakeup: socket.socket) -> None:
        self._wakeup = wakeup
        self._was_received = False

    def wait(self) -> None:
        """Block until a signal is received.

        A lock would not do: a signal that arrives just before the main thread blocks on it does not
        wake it, and its handler is called once something else does. The byte that Python writes for
        each signal can be read however early the signal arrived.
        """
        while not self._was_received:
            select.select([self._wakeup], [], [])
            self._wakeup.recv(1)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handle the first signal; the next one ends the process."""
        del frame
        self._was_received = True
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def stop_signal() -> Iterator[StopSignal]:
    """Handle SIGTERM and SIGINT in this block; a second signal ends the process."""
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        stop = StopSignal(reader)
        wakeup_before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        before = {
            number: signal.signal(number, stop.receive)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield stop
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)
            signal.set_wakeup_fd(wakeup_before)
