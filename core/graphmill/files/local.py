"""Local files: read at any offset, and write atomically."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.files.base import Writer
from graphmill.files.status import typed_errors

if TYPE_CHECKING:
    import mmap

    from graphmill.files.base import Chunk

# Non-blocking, so that opening a pipe does not wait for its other end; pipes are then rejected.
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)


class LocalReader:
    """A local file opened for reading at any offset.

    Every read checks whether the file has changed since it was opened, and raises DataLossError
    instead of mixing old and new bytes. `preadv` needs no lock; on platforms without it, a lock
    guards the file's position.

    Args:
        path: its path.
        fd: the descriptor of the file if it is open already; the reader closes it.
    """

    def __init__(self, path: str, fd: int | None = None) -> None:
        self.path = path
        with typed_errors(path):
            self._fd = os.open(path, _OPEN_FLAGS) if fd is None else fd
            self._close = weakref.finalize(self, os.close, self._fd)
            status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise errors.FailedPreconditionError(
                f"{path} is a folder, pipe or device; expected a regular file"
            )
        self.size = status.st_size
        self._identity = (status.st_size, status.st_mtime_ns)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the file descriptor, for libraries that open files themselves."""
        return self._fd

    def map(self) -> mmap.mmap:
        """Map the whole file, which must not be empty, into memory for reading."""
        import mmap  # here: many programs map no file

        with typed_errors(self.path):
            return mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError if the file is too short."""
        self._check_open()
        done = 0
        with typed_errors(self.path):
            while done < len(buffer):
                count = self._read_some(offset + done, buffer[done:])
                if not count:
                    break
                done += count
            status = os.fstat(self._fd)
        if (status.st_size, status.st_mtime_ns) != self._identity:
            raise errors.DataLossError(
                f"{self.path} was changed after it was opened; to replace a file that is in use, "
                "rename a new file over it"
            )
        if done < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, but "
                f"the file ends at byte {self.size}"
            )

    def _read_some(self, offset: int, buffer: memoryview) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._fd, [buffer], offset)
        with self._lock:
            os.lseek(self._fd, offset, os.SEEK_SET)
            data = os.read(self._fd, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _check_open(self) -> None:
        if not self._close.alive:
            raise errors.FailedPreconditionError(f"{self.path} was read after it was closed")

    def close(self) -> None:
        """Release the file; safe to call twice."""
        self._close()


def read_small(path: str, limit: int) -> bytes | None:
    """Return the content of a regular file of fewer than `limit` bytes; None for other files."""
    with typed_errors(path):
        descriptor = os.open(path, _OPEN_FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size >= limit:
                return None
            content = os.read(descriptor, status.st_size + 1)
        finally:
            os.close(descriptor)
    return content if len(content) == status.st_size else None


class LocalWriter(Writer):
    """Write a local file under a temporary name, and move it to its path at the end.

    Temporary names are TensorFlow's (`.tempstate` and a number), so its clean-up tools recognize
    them. Symbolic links are preserved, as are the permissions of an existing file. Special files
    (a device, a pipe) are written directly.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._target = Path(path)
        mode = None
        with typed_errors(path):
            if self._target.exists():
                self._target = self._target.resolve()
                mode = self._target.stat().st_mode
            is_special = mode is not None and not stat.S_ISREG(mode)
            temporary = self._target.with_name(temporary_name(self._target.name))
            self._temporary = None if is_special else temporary
            self._file = (self._temporary or self._target).open("wb", buffering=1 << 20)
            if self._temporary and mode is not None:
                self._temporary.chmod(stat.S_IMODE(mode))

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with typed_errors(self.path):
            self._file.write(chunk)

    def flush(self) -> None:
        """Hand all bytes to the file system."""
        with typed_errors(self.path):
            self._file.flush()

    def commit(self) -> None:
        """Finish the file and move it to its path."""
        with typed_errors(self.path):
            self._file.close()
            if self._temporary:
                self._temporary.replace(self._target)

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            if self._temporary:
                self._temporary.unlink()


def temporary_name(name: str) -> str:
    """Return the name of the temporary file for a file that is being written."""
    import secrets  # imported lazily: programs that only read do not need it

    return f"{name}.tempstate{secrets.randbits(64)}"
