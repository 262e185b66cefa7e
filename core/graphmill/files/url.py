"""Remote files through fsspec, which is imported on first use."""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.files.base import Writer
from graphmill.files.status import typed_errors

if TYPE_CHECKING:
    from graphmill.files.base import Chunk


class UrlReader:
    """A remote file opened for reading at any offset; a lock guards the stream's position."""

    def __init__(self, path: str) -> None:
        self.path = path
        with typed_errors(path):
            filesystem, inner = filesystem_of(path)
            self._file = filesystem.open(inner, "rb")
            self.size = int(self._file.seek(0, os.SEEK_END))
        self._lock = threading.Lock()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError if the file is too short."""
        with self._lock, typed_errors(self.path):
            self._file.seek(offset)
            data = self._file.read(len(buffer))
        if len(data) < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, but "
                f"the file has {self.size} bytes"
            )
        buffer[:] = data

    def close(self) -> None:
        """Release the file; safe to call twice."""
        self._file.close()


class UrlWriter(Writer):
    """A remote file opened for writing."""

    def __init__(self, path: str) -> None:
        self.path = path
        with typed_errors(path):
            self._filesystem, self._inner = filesystem_of(path)
            self._filesystem.makedirs(posixpath.dirname(self._inner), exist_ok=True)
            self._file = self._filesystem.open(self._inner, "wb", autocommit=False)

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with typed_errors(self.path):
            self._file.write(bytes(chunk))

    def commit(self) -> None:
        """Finish the file and publish it under its path."""
        with typed_errors(self.path):
            self._file.close()
            self._file.commit()

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        with contextlib.suppress(OSError):
            self._file.discard()
        with contextlib.suppress(OSError):  # some drivers write directly to the path
            self._filesystem.rm_file(self._inner)


def filesystem_of(path: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path in it.

    Raises:
        UnimplementedError: fsspec or the scheme's driver is not installed.
    """
    try:
        import fsspec
    except ImportError as error:
        raise errors.UnimplementedError(
            f"{path} is a URL, but the package fsspec, which opens URLs, is not installed; "
            "install fsspec, or use a local path"
        ) from error
    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise errors.UnimplementedError(f"cannot open {path}: {error}") from error
    return filesystem, str(inner)
