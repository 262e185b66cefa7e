"""`CommandQueue`: a thread that runs the accelerator's commands in order."""

from __future__ import annotations

import threading
import weakref
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from graphmill.spi import errors

if TYPE_CHECKING:
    from collections.abc import Callable


class CommandQueue:
    """Runs commands in the order in which they are put.

    Threads: any may put. The worker is a daemon that holds no reference to this object between
    commands, so that a device that was never closed leaves no thread behind.
    """

    def __init__(self, name: str) -> None:
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # nothing is put behind the end
        self._worker = threading.Thread(
            target=_work, args=(self._commands,), name=f"{name} queue", daemon=True
        )
        self._worker.start()
        self._end = weakref.finalize(self, self._commands.put, None)

    def put(self, command: Callable[[], None]) -> None:
        """Have a command run after all that were put before; it must not raise.

        Raises:
            CancelledError: the device is closed, so nobody would ever run it.
        """
        with self._lock:
            if not self._end.alive:
                raise errors.CancelledError(f"{self._worker.name} is closed")
            self._commands.put(command)

    def wait_until_idle(self) -> None:
        """Wait until all that was put before has been done; raises as `put` does."""
        done = threading.Event()
        self.put(done.set)
        done.wait()

    def close(self) -> None:
        """Stop the worker after the queued commands; idempotent."""
        with self._lock:
            self._end()
        self._worker.join()


def _work(commands: SimpleQueue[Any]) -> None:
    while True:
        command = commands.get()
        if command is None:
            return
        command()
        del command  # what it holds must not live until the next one
