"""`FileWriterCache`: one writer for each folder, so that its users share an event file.

Semantics: tensorflow/python/summary/writer/writer_cache.py, which never closes a writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import files
from graphmill.graph.infer_graph import infer_graph
from graphmill.runtime.process.fork import fork_safe_rlock
from graphmill.summary.file_writer import FileWriter

if TYPE_CHECKING:
    import os

_LOCK: Final = fork_safe_rlock()
_WRITERS: Final[dict[str, FileWriter]] = {}
_USERS: Final[dict[str, int]] = {}


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
            if path not in _WRITERS:
                _WRITERS[path] = FileWriter(path, infer_graph())
                _USERS[path] = 0
            _USERS[path] += 1
            writer = _WRITERS[path]
            writer.reopen()  # somebody may have closed it
            return writer

    @staticmethod
    def release(writer: FileWriter) -> None:
        """Write what a writer has buffered, and close it if nobody else took it with `get`.

        Raises:
            OpError: the events cannot be written.
        """
        path = writer.get_logdir()
        with _LOCK:
            if _WRITERS.get(path) is not writer:
                return
            _USERS[path] -= 1
            if _USERS[path]:
                writer.flush()
            else:
                del _WRITERS[path], _USERS[path]
                writer.close()

    @staticmethod
    def clear() -> None:
        """Close all writers.

        Raises:
            OpError: the events cannot be written.
        """
        with _LOCK:
            writers = list(_WRITERS.values())
            _WRITERS.clear()
            _USERS.clear()
        for writer in writers:
            writer.close()
