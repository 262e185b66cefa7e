"""Files by local path or URL: one small interface, errors by status code.

Local files are used directly. A path with a scheme (`gs://bucket/x`, `memory://x`) goes through
fsspec, which is imported only then; object stores need the driver package that fsspec names.

Errors of the operating system become status errors with TensorFlow's codes
(tsl/platform/default/posix_file_system.cc): NotFound, PermissionDenied, FailedPrecondition
(a folder where a file is needed) and so on, with the path in the message.
"""

from __future__ import annotations

import contextlib
import errno
import glob as _glob
import os
import posixpath
import re
import secrets
import stat
import threading
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

Chunk: TypeAlias = "bytes | bytearray | memoryview"

_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")  # two letters at least: `c:/x` is a drive

# Not blocking: opening a pipe must not wait for its other end (and is refused then).
_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)

_ERRNO_CLASSES: dict[int, type[errors.OpError]] = {
    errno.ENOENT: errors.NotFoundError,
    errno.EEXIST: errors.AlreadyExistsError,
    errno.EACCES: errors.PermissionDeniedError,
    errno.EPERM: errors.PermissionDeniedError,
    errno.EROFS: errors.PermissionDeniedError,
    errno.EISDIR: errors.FailedPreconditionError,
    errno.ENOTDIR: errors.FailedPreconditionError,
    errno.ENOTEMPTY: errors.FailedPreconditionError,
    errno.EINVAL: errors.InvalidArgumentError,
    errno.ENAMETOOLONG: errors.InvalidArgumentError,
    errno.ENOSPC: errors.ResourceExhaustedError,
    errno.EDQUOT: errors.ResourceExhaustedError,
    errno.EMFILE: errors.ResourceExhaustedError,
    errno.ENFILE: errors.ResourceExhaustedError,
    errno.ENOMEM: errors.ResourceExhaustedError,
}


class Reader(Protocol):
    """A file opened for reading at any offset, by any number of threads."""

    path: str
    size: int

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError where they are not there."""

    def close(self) -> None:
        """Release the file; safe to call twice."""


def as_path(path: str | bytes | os.PathLike[str]) -> str:
    """Return `path` as text; bytes that are no UTF-8 survive the way there and back.

    Raises:
        InvalidArgumentError: the path has a NUL in it.
    """
    text = os.fsdecode(path)
    if "\0" in text:
        raise errors.InvalidArgumentError(f"path {text!r} has a NUL character in it")
    return text


def is_url(path: str) -> bool:
    """Return whether `path` has a scheme and so goes through fsspec."""
    return _URL.match(path) is not None


def join(folder: str, *names: str) -> str:
    """Return the path of `names` below `folder`."""
    return posixpath.join(folder, *names) if is_url(folder) else str(Path(folder, *names))


def parent(path: str) -> str:
    """Return the folder that `path` lies in ("" for a bare name)."""
    head, separator, _ = path.rpartition("/")
    if is_url(path) or os.sep == "/":
        return head or separator
    return str(Path(path).parent)


def open_reader(path: str) -> Reader:
    """Open the file `path` for reading at any offset.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: by the state of the file.
    """
    return UrlReader(path) if is_url(path) else LocalReader(path)


def read_bytes(path: str) -> bytes:
    """Return the whole content of the file `path`."""
    with contextlib.closing(open_reader(path)) as reader:
        content = bytearray(reader.size)
        reader.read_into(0, memoryview(content))
        return bytes(content)


def open_writer(path: str) -> Writer:
    """Open a file for writing that appears at `path` whole, or not at all.

    A local file is written beside its place and moved there by `commit`, so that a reader (or a
    crash) never sees half of it; a missing folder is made. Object stores do the same by nature.
    """
    if is_url(path):
        return UrlWriter(path)
    make_dirs(parent(path))
    return LocalWriter(path)


def write(path: str, *chunks: Chunk) -> None:
    """Write `chunks` to the file `path`, which appears whole or not at all."""
    with open_writer(path) as writer:
        for chunk in chunks:
            writer.write(chunk)


def exists(path: str) -> bool:
    """Return whether there is a file or folder `path`."""
    if is_url(path):
        with _typed_errors(path):
            filesystem, inner = _url_filesystem(path)
            return bool(filesystem.exists(inner))
    return Path(path).exists()


def is_dir(path: str) -> bool:
    """Return whether `path` is a folder."""
    if is_url(path):
        with _typed_errors(path):
            filesystem, inner = _url_filesystem(path)
            return bool(filesystem.isdir(inner))
    return Path(path).is_dir()


def list_dir(path: str) -> list[str]:
    """Return the names in folder `path`, sorted."""
    with _typed_errors(path):
        if is_url(path):
            filesystem, inner = _url_filesystem(path)
            return sorted(posixpath.basename(name) for name in filesystem.ls(inner, detail=False))
        return sorted(entry.name for entry in Path(path).iterdir())


def matching(pattern: str) -> list[str]:
    """Return the paths that match `pattern` (`*`, `?`, `[…]`; none crosses a `/`), sorted."""
    with _typed_errors(pattern):
        if is_url(pattern):
            filesystem, inner = _url_filesystem(pattern)
            return sorted(filesystem.unstrip_protocol(name) for name in filesystem.glob(inner))
        # Path.glob cannot take an absolute pattern.
        return sorted(_glob.glob(pattern, include_hidden=True))  # noqa: PTH207


def make_dirs(path: str) -> None:
    """Make folder `path` and those above it, where they are missing."""
    with _typed_errors(path):
        if is_url(path):
            filesystem, inner = _url_filesystem(path)
            filesystem.makedirs(inner, exist_ok=True)
        elif path:
            Path(path).mkdir(parents=True, exist_ok=True)


def rename(source: str, target: str) -> None:
    """Move file `source` to `target`, replacing what is there."""
    with _typed_errors(source):
        if is_url(source):
            filesystem, inner = _url_filesystem(source)
            filesystem.mv(inner, _url_filesystem(target)[1])
        else:
            Path(source).replace(target)


def remove(path: str) -> None:
    """Delete the file `path`."""
    with _typed_errors(path):
        if is_url(path):
            filesystem, inner = _url_filesystem(path)
            filesystem.rm_file(inner)
        else:
            Path(path).unlink()


def remove_empty_dir(path: str) -> None:
    """Delete the folder `path`, which must be empty."""
    with _typed_errors(path):
        if is_url(path):
            filesystem, inner = _url_filesystem(path)
            filesystem.rmdir(inner)
        else:
            Path(path).rmdir()


class LocalReader:
    """A local file opened for reading at any offset.

    The file is looked at again at every read: a change since it was opened is a DataLossError,
    not a mixture of old and new bytes. `pread` needs no lock; where the platform has none, a
    lock guards the file's position.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with _typed_errors(path):
            self._fd = os.open(path, _OPEN_FLAGS)
            self._close = weakref.finalize(self, os.close, self._fd)
            status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise errors.FailedPreconditionError(f"{path} is a folder, pipe or device, not a file")
        self.size = status.st_size
        self._identity = (status.st_size, status.st_mtime_ns)
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the file descriptor, for mapping the file into memory."""
        return self._fd

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError where they are not there."""
        self._check_open()
        done = 0
        with _typed_errors(self.path):
            while done < len(buffer):
                count = self._read_some(offset + done, buffer[done:])
                if not count:
                    break
                done += count
            status = os.fstat(self._fd)
        if (status.st_size, status.st_mtime_ns) != self._identity:
            raise errors.DataLossError(
                f"{self.path} was changed after it was opened; replace files that are in use by "
                "renaming a new one over them"
            )
        if done < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, and "
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
            raise errors.FailedPreconditionError(f"{self.path} is read after it was closed")

    def close(self) -> None:
        """Release the file; safe to call twice."""
        self._close()


class UrlReader:
    """A remote file opened for reading at any offset. A lock guards the stream's position."""

    def __init__(self, path: str) -> None:
        self.path = path
        with _typed_errors(path):
            self._file = _open_url(path, "rb")
            self.size = int(self._file.seek(0, os.SEEK_END))
        self._lock = threading.Lock()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError where they are not there."""
        with self._lock, _typed_errors(self.path):
            self._file.seek(offset)
            data = self._file.read(len(buffer))
        if len(data) < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, and "
                f"the file has {self.size}"
            )
        buffer[:] = data

    def close(self) -> None:
        """Release the file; safe to call twice."""
        self._file.close()


class BytesReader:
    """Bytes in memory with the interface of a file."""

    def __init__(self, content: bytes | memoryview, path: str = "<bytes>") -> None:
        self.path = path
        self.view = memoryview(content)
        self.size = len(self.view)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`; DataLossError where they are not there."""
        data = self.view[offset : offset + len(buffer)]
        if len(data) < len(buffer):
            raise errors.DataLossError(
                f"{self.path} is truncated: {len(buffer)} bytes are needed at byte {offset}, and "
                f"there are {self.size}"
            )
        buffer[:] = data

    def close(self) -> None:
        """Do nothing: the bytes go when the last reference does."""


class Writer:
    """A file being written; as a context manager it commits, or abandons after an error."""

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        raise NotImplementedError

    def commit(self) -> None:
        """Finish the file: from now on it is at its place."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self.abandon()
            return
        try:
            self.commit()
        except errors.OpError:
            self.abandon()
            raise


class LocalWriter(Writer):
    """A local file that is written beside its place and moved there at the end.

    The temporary name is TensorFlow's (`.tempstate` and a number), so its cleaners know it. A
    link stays one, and a file that is there keeps its permissions. What is no regular file (a
    device, a pipe) is written straight.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._target = Path(path)
        mode = None
        with _typed_errors(path):
            if self._target.exists():
                self._target = self._target.resolve()
                mode = self._target.stat().st_mode
            is_straight = mode is not None and not stat.S_ISREG(mode)
            self._temporary = None if is_straight else _beside(self._target)
            self._file = (self._temporary or self._target).open("wb", buffering=1 << 20)
            if self._temporary and mode is not None:
                self._temporary.chmod(stat.S_IMODE(mode))

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with _typed_errors(self.path):
            self._file.write(chunk)

    def commit(self) -> None:
        """Finish the file: from now on it is at its place."""
        with _typed_errors(self.path):
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


class UrlWriter(Writer):
    """A remote file being written."""

    def __init__(self, path: str) -> None:
        self.path = path
        with _typed_errors(path):
            self._filesystem, self._inner = _url_filesystem(path)
            self._filesystem.makedirs(posixpath.dirname(self._inner), exist_ok=True)
            self._file = self._filesystem.open(self._inner, "wb", autocommit=False)

    def write(self, chunk: Chunk) -> None:
        """Append bytes."""
        with _typed_errors(self.path):
            self._file.write(bytes(chunk))

    def commit(self) -> None:
        """Finish the file: from now on it is at its place."""
        with _typed_errors(self.path):
            self._file.close()
            self._file.commit()

    def abandon(self) -> None:
        """Delete the unfinished file; never raises a file error."""
        with contextlib.suppress(OSError):
            self._file.discard()
        with contextlib.suppress(OSError):  # drivers that write straight to the place
            self._filesystem.rm_file(self._inner)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.tempstate{secrets.randbits(64)}")


@contextlib.contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind = _ERRNO_CLASSES.get(error.errno or 0, errors.UnknownError)
        if isinstance(error, FileNotFoundError):  # some drivers raise it without a number
            kind = errors.NotFoundError
        reason = error.strerror or str(error) or type(error).__name__
        raise kind(f"{path}: {reason}") from error


def _url_filesystem(path: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise errors.UnimplementedError(
            f"{path} is a URL, and the package fsspec that reads URLs is not installed; "
            "install fsspec, or give a local path"
        ) from error
    try:
        filesystem, inner = fsspec.core.url_to_fs(path)
    except (ValueError, ImportError) as error:
        raise errors.UnimplementedError(f"cannot open {path}: {error}") from error
    return filesystem, str(inner)


def _open_url(path: str, mode: str) -> Any:
    filesystem, inner = _url_filesystem(path)
    return filesystem.open(inner, mode)
