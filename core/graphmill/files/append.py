"""Append to files that others read while they grow, such as event logs."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from graphmill.files import is_url, make_dirs, parent
from graphmill.files.status import typed_errors
from graphmill.files.url import filesystem_of

if TYPE_CHECKING:
    from graphmill.files.base import Chunk


class Appender:
    """Append to a file; readers see the data after each `flush`.

    On an object store, the file only appears after `close`. Missing folders are created.

    Args:
        path: its path.
        file: the file if it is open already.

    Raises:
        PermissionDeniedError, FailedPreconditionError: the file cannot be written.
    """

    _file: BinaryIO

    def __init__(self, path: str, file: BinaryIO | None = None) -> None:
        self.path = path
        if file is not None:
            self._file = file
            return
        if not is_url(path):
            make_dirs(parent(path))
            with typed_errors(path):
                self._file = Path(path).open("ab")  # noqa: SIM115 - it stays open
            return
        with typed_errors(path):
            filesystem, inner = filesystem_of(path)
            filesystem.makedirs(posixpath.dirname(inner), exist_ok=True)
            self._file = cast("BinaryIO", filesystem.open(inner, "wb"))

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with typed_errors(self.path):
            self._file.write(chunk)

    def flush(self) -> None:
        """Flush written data so that readers see it."""
        with typed_errors(self.path):
            self._file.flush()

    def close(self) -> None:
        """Finish the file; safe to call twice."""
        with typed_errors(self.path):
            self._file.close()
