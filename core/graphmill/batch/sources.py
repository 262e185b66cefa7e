"""Find the files of a batch run: files, folders, patterns, and standard input."""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphmill import files
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.inputs import image_files

if TYPE_CHECKING:
    from collections.abc import Iterable

STDIN: Final = "-"
FORMATS: Final = {
    **dict.fromkeys(image_files.SUFFIXES, "image"),
    ".csv": "csv",
    ".tsv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".txt": "txt",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
    ".tfrecord.gz": "tfrecord",
    ".npy": "npy",
    ".npz": "npz",
}
"""The format of a file by its suffix."""
STDIN_FORMATS: Final = ("csv", "jsonl", "txt", "tfrecord", "paths")
"""The formats of standard input; `paths` are names of files, one on each line."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file with rows.

    Attributes:
        path: where it is.
        format: a value of `FORMATS`.
        label: how messages and results name it.
        size: its size in bytes.
        stamp: changes if the file's content does.
    """

    path: str
    format: str
    label: str
    size: int
    stamp: str


def find_sources(
    each: Iterable[str], *, stdin_copy: str | None = None, stdin_format: str | None = None
) -> list[SourceFile]:
    """Return the files that the patterns name, in order; those of a folder are sorted by name.

    Args:
        each: files, folders, patterns such as `pics/*.png`, or `-` for standard input.
        stdin_copy: the file that holds what was read from standard input.
        stdin_format: its format, one of `STDIN_FORMATS`.

    Raises:
        NotFoundError: there is no such file, or a pattern or folder has none.
        InvalidArgumentError: the format of a file is not supported.
    """
    found: list[SourceFile] = []
    for item in each:
        if item == STDIN:
            found += _stdin_files(stdin_copy, stdin_format)
        else:
            found += _sources(files.as_path(item))
    return found


def copy_stdin(path: str, kind: str | None) -> None:
    """Copy standard input to a file.

    Args:
        path: the file.
        kind: the format of standard input, which is checked before it is read.

    Raises:
        InvalidArgumentError: the format is not one of `STDIN_FORMATS`.
        OpError: the file cannot be written.
    """
    _check_stdin_format(kind)
    with files.open_writer(path) as writer:
        while chunk := sys.stdin.buffer.read(1 << 20):
            writer.write(chunk)


def format_of(path: str) -> str:
    """Return the format of a file, by its suffix.

    Raises:
        InvalidArgumentError: it is not supported.
    """
    name = path.lower()
    for suffix, kind in FORMATS.items():
        if name.endswith(suffix):
            return kind
    raise InvalidArgumentError(
        f"{path} is of an unsupported file type; supported are {' '.join(FORMATS)}"
    )


def _sources(item: str) -> list[SourceFile]:
    """Return the files of a folder, the file itself, or the files that match a pattern."""
    if files.is_dir(item):
        # Names in a folder are plain: a `Path` for each would take a third of the time to list it.
        join, prefix = posixpath.join if files.is_url(item) else os.path.join, files.join(item)
        names = [name for name in files.list_dir(item) if name[0] != "."]
        paths = [join(prefix, name) for name in names if name.lower().endswith(tuple(FORMATS))]
        if not paths:
            raise NotFoundError(f"folder {item} has no file of a type in {' '.join(FORMATS)}")
        return [_source(path) for path in paths]
    if files.exists(item):
        return [_source(item)]
    if any(character in item for character in "*?["):
        shows_hidden = posixpath.basename(item).startswith(".")
        matches = [
            (path, _status(path))
            for path in files.matching(item)
            if shows_hidden or not posixpath.basename(path).startswith(".")
        ]
        found = [_source(path, status=status) for path, status in matches if status is not None]
        if not found:
            raise NotFoundError(f"no file matches {item}")
        return found
    folder = Path(item).parent
    near = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    raise NotFoundError(f"there is no file {item}{suggest(Path(item).name, near)}")


def _source(
    path: str, kind: str | None = None, *, status: tuple[int, str] | None = None
) -> SourceFile:
    size, stamp = status or _status(path) or (0, "")  # a folder is reported when it is read
    return SourceFile(path, kind or format_of(path), path, size, stamp)


def _status(path: str) -> tuple[int, str] | None:
    """Return the size and the stamp of a file; None for a folder.

    A path that has no status, such as a dangling link, counts as empty; reading it reports why.
    """
    if files.is_url(path):
        if files.is_dir(path):
            return None
        with contextlib.closing(files.open_reader(path)) as reader:
            return reader.size, str(reader.size)
    try:
        status = os.stat(path)  # noqa: PTH116 - three times as fast as with a Path, for each file
    except OSError:
        return 0, ""
    if stat.S_ISDIR(status.st_mode):
        return None
    return status.st_size, f"{status.st_size} {status.st_mtime_ns}"


def _stdin_files(copy: str | None, kind: str | None) -> list[SourceFile]:
    if copy is None:
        raise InvalidArgumentError("standard input can only be read by a run that writes a file")
    kind = _check_stdin_format(kind)
    content = files.read_bytes(copy)
    if kind == "paths":
        lines = content.decode("utf-8", "surrogateescape").splitlines()
        return [_source(files.as_path(line)) for line in lines if line.strip()]
    digest = hashlib.sha256(content).hexdigest()
    return [SourceFile(copy, kind, "stdin", len(content), digest)]


def _check_stdin_format(kind: str | None) -> str:
    if kind is None or kind not in STDIN_FORMATS:
        given = "" if kind is None else f": {kind!r}"
        error = InvalidArgumentError(f"the format of standard input is not known{given}")
        error.add_note(f"try: --format with one of {', '.join(STDIN_FORMATS)}")
        raise error
    return kind
