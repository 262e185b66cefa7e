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
    """Runs commands in the order in which they are enqueued.

    Threads: any thread may call `put`. The worker is a daemon thread that holds no reference to
    this object between commands, so a device that was never closed does not leak its thread.
    """

    def __init__(self, name: str) -> None:
        self._commands: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # no command may follow the end marker
        self._worker = threading.Thread(
            target=_work, args=(self._commands,), name=f"{name} queue", daemon=True
        )
        self._worker.start()
        self._end = weakref.finalize(self, self._commands.put, None)

    def put(self, command: Callable[[], None]) -> None:
        """Enqueue a command; it must not raise.

        Raises:
            CancelledError: the device is closed, so the command would never run.
        """
        with self._lock:
            if not self._end.alive:
                raise errors.CancelledError(f"{self._worker.name} is closed")
            self._commands.put(command)

    def wait_until_idle(self) -> None:
        """Wait until all commands enqueued before have run; raises as `put` does."""
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
        del command  # frees its values before the next command arrives
