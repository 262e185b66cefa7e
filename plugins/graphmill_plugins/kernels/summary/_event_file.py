"""`EventFile`: a TensorBoard event file, and the resource of a writer's handle.

Semantics: tensorflow/core/util/events_writer.cc, tensorflow/core/summary/summary_file_writer.cc.
"""

from __future__ import annotations

import os
import socket
import time
import weakref
from typing import TYPE_CHECKING

from graphmill.errors import FailedPreconditionError
from graphmill.spi.files import frame, join
from graphmill.spi.process import fork_safe_lock
from graphmill.spi.protos import Event

if TYPE_CHECKING:
    from graphmill.spi.files import Broker
    from graphmill.spi.protos import Summary

_VERSION = "brain.Event:2"


class EventFile:
    """Appends events to a new file of a folder.

    Threads: `_lock` guards the buffer and the file.

    Args:
        folder: a local folder or URL; created if it is missing.
        max_queue: the maximum number of buffered events.
        flush_seconds: the maximum time between two flushes, checked when an event is added.
        suffix: the end of the file's name.
        broker: opens the file.
    """

    def __init__(
        self, folder: str, max_queue: int, flush_seconds: float, suffix: str, broker: Broker
    ) -> None:
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}"
        self._lock = fork_safe_lock()
        self._max_queue = max_queue
        self._flush_seconds = flush_seconds
        self._buffer: list[bytes] = []
        self._last_flush = time.monotonic()
        self._file = broker.open_appender(join(folder, f"{name}.{_next_number()}{suffix}"))
        self.add(Event(wall_time=time.time(), file_version=_VERSION))
        self.flush()

    def add_summary(self, summary: Summary, step: int) -> None:
        """Append a summary with the current time."""
        self.add(Event(wall_time=time.time(), step=step, summary=summary))

    def add(self, event: Event) -> None:
        """Append an event."""
        framed = frame(event.SerializeToString())
        with self._lock:
            self._buffer.append(framed)
            elapsed = time.monotonic() - self._last_flush
            if len(self._buffer) > self._max_queue or elapsed > self._flush_seconds:
                self._flush_locked()

    def flush(self) -> None:
        """Write buffered events."""
        with self._lock:
            self._flush_locked()

    def _flush_locked(self) -> None:
        if self._buffer:
            self._file.write(b"".join(self._buffer))
            self._buffer.clear()
        self._file.flush()
        self._last_flush = time.monotonic()

    def close(self) -> None:
        """Write buffered events, and close the file."""
        self.flush()
        self._file.close()


class _Counter:
    """A counter that makes the names of files created within a second unique.

    Threads: `lock` guards the number.
    """

    def __init__(self) -> None:
        self.lock = fork_safe_lock()
        self.number = -1


_counter = _Counter()


def _next_number() -> int:
    with _counter.lock:
        _counter.number += 1
        return _counter.number


class SummaryWriter:
    """The resource of a writer's handle; it has no file until `create`.

    A file that was not closed is closed when the session drops the writer.

    Threads: `_lock` guards the creation of the file.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._file: EventFile | None = None
        self._finalizer: weakref.finalize[..., SummaryWriter] | None = None

    def create(
        self, folder: str, max_queue: int, flush_seconds: float, suffix: str, broker: Broker
    ) -> None:
        """Create a file, unless the writer has one."""
        with self._lock:
            if self._file is None:
                self._file = EventFile(folder, max_queue, flush_seconds, suffix, broker)
                # It may close in any thread: whoever holds the file's lock uses the writer.
                self._finalizer = weakref.finalize(self, self._file.close)

    def file(self) -> EventFile:
        """Return the file.

        Raises:
            FailedPreconditionError: it was not created, or was closed.
        """
        event_file = self._file
        if event_file is None:
            raise FailedPreconditionError(
                "the summary writer has no file: CreateSummaryFileWriter has not run, or the "
                "writer was closed"
            )
        return event_file

    def close(self) -> None:
        """Close the file, if there is one."""
        with self._lock:
            finalizer, self._finalizer = self._finalizer, None
            self._file = None
        if finalizer is not None:
            finalizer()
