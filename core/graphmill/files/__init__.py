"""Access files by local path or URL, with typed errors.

Local files are opened directly. Paths with a scheme (`gs://bucket/x`, `memory://x`) use fsspec,
which is imported on first use; object stores need the driver package that fsspec names.

Errors of the operating system become status errors with TensorFlow's codes
(tsl/platform/default/posix_file_system.cc): NotFound, PermissionDenied, FailedPrecondition
(a folder instead of a file) and so on, with the path in the message.
"""

from __future__ import annotations

import glob as _glob
import os
import posixpath
import re
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.files.base import BytesReader, Chunk, Reader, Writer
from graphmill.files.local import LocalReader, LocalWriter, read_small
from graphmill.files.status import typed_errors
from graphmill.files.url import UrlReader, UrlWriter, filesystem_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BytesReader",
    "Chunk",
    "LocalReader",
    "LocalWriter",
    "Reader",
    "UrlReader",
    "UrlWriter",
    "Writer",
    "as_path",
    "exists",
    "is_dir",
    "is_url",
    "join",
    "list_dir",
    "make_dirs",
    "matching",
    "open_reader",
    "open_writer",
    "parent",
    "read_bytes",
    "read_content",
    "remove",
    "remove_empty_dir",
    "rename",
    "write",
    "write_new",
    "write_together",
]

_MAX_SMALL_FILE_BYTES = 1 << 20
"""Maximum size of files that are read without a request to the memory budget."""
_URL = r"[A-Za-z][A-Za-z0-9+.-]+://"  # at least two letters: `c://` is a drive


def as_path(path: str | bytes | os.PathLike[str]) -> str:
    """Return `path` as text; bytes that are not UTF-8 survive a round trip.

    Raises:
        InvalidArgumentError: the path contains a NUL character.
    """
    text = os.fsdecode(path)
    if "\0" in text:
        raise errors.InvalidArgumentError(f"path {text!r} contains a NUL character")
    return text


def is_url(path: str) -> bool:
    """Return whether `path` has a scheme and is therefore opened through fsspec."""
    return "://" in path and re.match(_URL, path) is not None


def join(folder: str, *names: str) -> str:
    """Return the path of `names` below `folder`."""
    return posixpath.join(folder, *names) if is_url(folder) else str(Path(folder, *names))


def parent(path: str) -> str:
    """Return the folder of `path` ("" for a bare name)."""
    head, separator, _ = path.rpartition("/")
    if is_url(path) or os.sep == "/":
        return head or separator
    return str(Path(path).parent)


def open_reader(path: str) -> Reader:
    """Open the file `path` for reading at any offset.

    Raises:
        NotFoundError, PermissionDeniedError, FailedPreconditionError: the file cannot be opened.
    """
    return UrlReader(path) if is_url(path) else LocalReader(path)


def read_bytes(path: str) -> bytes:
    """Return the whole content of the file `path`."""
    content = None if is_url(path) else read_small(path, _MAX_SMALL_FILE_BYTES)
    return read_content(open_reader(path)) if content is None else content


def read_content(reader: Reader) -> bytes:
    """Return the whole content of an open file, and close it.

    Raises:
        ResourceExhaustedError: it is larger than the memory budget.
    """
    with closing(reader):
        if reader.size > _MAX_SMALL_FILE_BYTES:
            from graphmill.memory_budget import request_memory  # few files are large

            request_memory(reader.size, f"the file {reader.path} has {reader.size} bytes")
        content = bytearray(reader.size)
        reader.read_into(0, memoryview(content))
        return bytes(content)


def open_writer(path: str) -> Writer:
    """Open the file `path` for atomic writing: it appears complete, or not at all.

    A local file is written under a temporary name and moved by `commit`, so readers never see an
    incomplete file, even after a crash; missing folders are created. Object stores write atomically
    anyway.
    """
    if is_url(path):
        return UrlWriter(path)
    make_dirs(parent(path))
    return LocalWriter(path)


def write(path: str, *chunks: Chunk) -> None:
    """Write `chunks` to the file `path` atomically."""
    with open_writer(path) as writer:
        for chunk in chunks:
            writer.write(chunk)


def write_together(contents: Mapping[str, Chunk]) -> list[str]:
    """Write files that belong together; return their paths.

    If a disk is full, none of them is replaced.

    Args:
        contents: the content of each file by its path.
    """
    with ExitStack() as stack:
        for path, content in contents.items():
            writer = stack.enter_context(open_writer(path))
            writer.write(content)
            writer.flush()
    return list(contents)


def write_new(path: str, content: bytes) -> str:
    """Write a local file that does not exist yet; return its path, possibly with a suffix."""
    make_dirs(parent(path))
    suffix = 0
    with typed_errors(path):
        while True:
            unique = f"{path}-{suffix}" if suffix else path
            try:
                descriptor = os.open(unique, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                suffix += 1
                continue
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            return unique


def exists(path: str) -> bool:
    """Return whether the file or folder `path` exists."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            return bool(filesystem.exists(inner))
        return Path(path).exists()


def is_dir(path: str) -> bool:
    """Return whether `path` is a folder."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            return bool(filesystem.isdir(inner))
        return Path(path).is_dir()


def list_dir(path: str) -> list[str]:
    """Return the names in folder `path`, sorted."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            return sorted(posixpath.basename(name) for name in filesystem.ls(inner, detail=False))
        return sorted(os.listdir(path))  # noqa: PTH208 - a `Path` for each name takes long


def matching(pattern: str) -> list[str]:
    """Return the sorted paths that match `pattern` (`*`, `?`, `[…]`, which do not match `/`)."""
    with typed_errors(pattern):
        if is_url(pattern):
            filesystem, inner = filesystem_of(pattern)
            return sorted(filesystem.unstrip_protocol(name) for name in filesystem.glob(inner))
        # Path.glob does not support absolute patterns.
        return sorted(_glob.glob(pattern, include_hidden=True))  # noqa: PTH207


def make_dirs(path: str) -> None:
    """Create folder `path` and missing parents."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            filesystem.makedirs(inner, exist_ok=True)
        elif path:
            Path(path).mkdir(parents=True, exist_ok=True)


def rename(source: str, target: str) -> None:
    """Move file `source` to `target`; a file that is there is replaced."""
    with typed_errors(source):
        if is_url(source):
            filesystem, inner = filesystem_of(source)
            filesystem.mv(inner, filesystem_of(target)[1])
        else:
            Path(source).replace(target)


def remove(path: str) -> None:
    """Delete the file `path`."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            filesystem.rm_file(inner)
        else:
            Path(path).unlink()


def remove_empty_dir(path: str) -> None:
    """Delete the folder `path`, which must be empty."""
    with typed_errors(path):
        if is_url(path):
            filesystem, inner = filesystem_of(path)
            filesystem.rmdir(inner)
        else:
            Path(path).rmdir()
