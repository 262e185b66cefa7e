"""`Folder`: an open folder, reached and used without following any symbolic link.

Between the check of a path and its use, another process could replace a folder by a symbolic link
to another place. So a path is resolved and checked first, and then opened without any access to
what is in it (`O_PATH`). Linux knows the path of an open folder: if it is the path that was
checked, no link was followed. Otherwise, and on other systems, the path is walked from the root of
the file system, one component at a time; a component that has become a link is refused. Systems
without `openat` get the next best: the path is resolved again after it was opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Final

from graphmill.errors import PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_NO_FOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_IS_SUPPORTED: Final = (
    bool(_NO_FOLLOW)
    and {
        os.open,
        os.mkdir,
        os.rename,
        os.rmdir,
        os.stat,
        os.unlink,
    }
    <= os.supports_dir_fd
)
_DIRECTORY: Final = getattr(os, "O_DIRECTORY", 0)
_PATH_ONLY: Final = getattr(os, "O_PATH", 0)
_WALK: Final = (_PATH_ONLY or os.O_RDONLY) | _DIRECTORY | _NO_FOLLOW
_DELETED: Final = " (deleted)"  # how Linux marks the path of what has no name any more
_LIST: Final = os.O_RDONLY | _DIRECTORY | _NO_FOLLOW
_REPLACED: Final = (errno.ELOOP, errno.EMLINK)  # what O_NOFOLLOW gives for a link


class Folder:
    """An open folder; a context manager that closes it.

    Args:
        path: its absolute path, without symbolic links.
        create: whether to create it, and missing parents.

    Raises:
        OSError: it does not exist, or cannot be opened.
        PermissionDeniedError: a component was replaced by a symbolic link.

    Attributes:
        path: the path.
    """

    def __init__(self, path: str, *, create: bool = False) -> None:
        self.path = path
        self._fd: int | None = None
        self._close: Callable[[], object] = _nothing
        if not _IS_SUPPORTED:
            if create:
                os.makedirs(path, exist_ok=True)  # noqa: PTH103 - paths are texts here
            self._check(path)
            return
        self._fd = _opened(path, create=create)
        self._close = weakref.finalize(self, os.close, self._fd)

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Open a file of the folder; return the descriptor."""
        flags |= _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        try:
            fd = os.open(self._name(name), flags, mode, dir_fd=self._fd)
        except OSError as error:
            if error.errno in _REPLACED:
                raise _replaced(self._path(name)) from error
            raise
        if self._fd is None:
            try:
                self._check(self._path(name))
            except PermissionDeniedError:
                os.close(fd)
                raise
        return fd

    def status(self, name: str) -> os.stat_result | None:
        """Return the status of a file or folder, None if it does not exist."""
        try:
            return os.stat(self._name(name), dir_fd=self._fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """Return the names in the folder, sorted."""
        if self._fd is None:
            return sorted(os.listdir(self.path))  # noqa: PTH208 - names are wanted
        fd = os.open(".", _LIST, dir_fd=self._fd)
        try:
            return sorted(os.listdir(fd))  # noqa: PTH208 - of a descriptor
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        """Delete a file of the folder."""
        os.unlink(self._name(name), dir_fd=self._fd)

    def remove_folder(self, name: str) -> None:
        """Delete an empty folder of the folder."""
        os.rmdir(self._name(name), dir_fd=self._fd)

    def rename(self, name: str, target: Folder, new_name: str) -> None:
        """Move a file to another folder; one of that name there is replaced."""
        source, goal = self._name(name), target._name(new_name)
        if self._fd is None:
            os.replace(source, goal)  # noqa: PTH105 - paths are texts here
        else:
            os.rename(source, goal, src_dir_fd=self._fd, dst_dir_fd=target._fd)

    def close(self) -> None:
        """Close the folder; safe to call twice."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _name(self, name: str) -> str:
        return name if self._fd is not None else self._path(name)

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)  # noqa: PTH118 - paths are texts here

    def _check(self, path: str) -> None:
        """Check that a path has not become a symbolic link."""
        if os.path.realpath(path) != path:
            raise _replaced(path)


def _nothing() -> None:
    """Do nothing: there is no descriptor to close."""


def canonical_path(path: str) -> str:
    """Return a path with all its links followed, as `os.path.realpath`, for an accessible path.

    On Linux this takes three system calls for a path that exists, and not one for each component.
    It opens what the path leads to, without any access to it.
    """
    if not _PATH_ONLY:
        return os.path.realpath(path)
    try:
        fd = os.open(path, _PATH_ONLY | os.O_CLOEXEC)
    except (OSError, ValueError):
        return os.path.realpath(path)  # which takes paths that do not exist
    try:
        target = _path_of(fd)
    finally:
        os.close(fd)
    is_path = target.startswith(os.sep) and not target.endswith(_DELETED)
    return target if is_path else os.path.realpath(path)


def split(path: str) -> tuple[str, str]:
    """Return the folder of a canonical path, and the name in it ("." for the root)."""
    folder, name = os.path.split(path)
    return folder, name or "."


def _opened(path: str, *, create: bool) -> int:
    """Open a folder by its path if that can be verified, else component by component."""
    fd = _opened_at_once(path)
    return _walked(path, create=create) if fd is None else fd


def _opened_at_once(path: str) -> int | None:
    """Open a folder if the system confirms that its path is this one; else return None.

    Opening with `O_PATH` has no effect on what is opened, whatever that is.
    """
    if not _PATH_ONLY:
        return None
    try:
        fd = os.open(path, _WALK | os.O_CLOEXEC)
    except OSError:
        return None  # walking creates what is missing, and says what is wrong
    if _path_of(fd) == path:
        return fd
    os.close(fd)
    return None


def _path_of(fd: int) -> str:
    """Return the path of an open descriptor; "" if the system does not provide it."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115 - paths are texts here
    except OSError:
        return ""  # there is no /proc


def _walked(path: str, *, create: bool) -> int:
    fd = os.open(os.sep, _WALK | getattr(os, "O_CLOEXEC", 0))
    walked = ""
    for name in Path(path).parts[1:]:
        walked = f"{walked}{os.sep}{name}"
        try:
            inner = _step(fd, name, create=create)
        except OSError as error:
            if error.errno in _REPLACED or _is_link(name, fd):
                raise _replaced(walked) from error
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd


def _step(fd: int, name: str, *, create: bool) -> int:
    flags = _WALK | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(name, flags, dir_fd=fd)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(name, dir_fd=fd)
    return os.open(name, flags, dir_fd=fd)


def _is_link(name: str, fd: int) -> bool:
    try:
        os.readlink(name, dir_fd=fd)
    except OSError:
        return False
    return True


def _replaced(path: str) -> PermissionDeniedError:
    return PermissionDeniedError(
        f"{path} is a symbolic link that has appeared since the path was checked; it is not "
        "followed"
    )
