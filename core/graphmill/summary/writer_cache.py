"""`FileWriterCache`: one writer for each folder, so that its users share an event file.

Semantics: tensorflow/python/summary/writer/writer_cache.py, which never closes a writer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graphmill import files
from graphmill.graph.infer_graph import infer_graph
from graphmill.runtime.process.fork import fork_safe_rlock
from graphmill.summary.file_writer import FileWriter

if TYPE_CHECKING:
    import os

_LOCK: Final = fork_safe_rlock()


@dataclass(slots=True)
class _Entry:
    """A writer, and the number of its users."""

    writer: FileWriter
    num_users: int = 0


_ENTRIES: Final[dict[str, _Entry]] = {}


class FileWriterCache:
    """The open writers of this process, by folder; hooks take theirs from here.

    Threads: any may call.
    """

    @staticmethod
    def get(logdir: str | os.PathLike[str]) -> FileWriter:
        """Return the writer of a folder; a new one writes the default graph.

        Raises:
            OpError: the file cannot be created.
        """
        path = files.as_path(logdir)
        with _LOCK:
            entry = _ENTRIES.get(path)
            if entry is None:
                entry = _ENTRIES[path] = _Entry(FileWriter(path, infer_graph()))
            entry.num_users += 1
            entry.writer.reopen()  # a user may have closed it
            return entry.writer

    @staticmethod
    def release(writer: FileWriter) -> None:
        """Write what a writer has buffered, and close it after its last user.

        Raises:
            OpError: the events cannot be written.
        """
        path = writer.get_logdir()
        with _LOCK:
            entry = _ENTRIES.get(path)
            if entry is None or entry.writer is not writer:
                return
            entry.num_users -= 1
            if entry.num_users:
                writer.flush()
            else:
                del _ENTRIES[path]
                writer.close()

    @staticmethod
    def clear() -> None:
        """Close all writers.

        Raises:
            OpError: the events cannot be written.
        """
        with _LOCK:
            writers = [entry.writer for entry in _ENTRIES.values()]
            _ENTRIES.clear()
        for writer in writers:
            writer.close()
