"""Restrict which files this process may open, with Linux's Landlock."""

from __future__ import annotations

import ctypes
import importlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

MINIMUM_ABI: Final = 3
"""Linux 6.2: earlier versions do not restrict truncating files by their path."""
_THREADS: Final = "/proc/self/task"


@dataclass(frozen=True, slots=True)
class FileAccess:
    """The paths that may be opened; each covers everything below it.

    Attributes:
        read: files that may be read.
        list: folders whose names may be listed.
        write: folders in which files may be read, written, created, replaced and deleted.
    """

    read: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def landlock_abi() -> int:
    """Return the version of Landlock's interface that the kernel has.

    Raises:
        ImportError: the package landlock is not installed.
        OSError: the kernel has no Landlock, or it is switched off.
    """
    library = importlib.import_module("landlock")
    ctypes.set_errno(0)  # the package takes an earlier error for its own
    version: int = library.landlock_abi_version()
    return version


def restrict_files(access: FileAccess) -> None:
    """Deny every opening, creating and deleting of files that `access` does not list.

    It holds for all later threads, and cannot be undone. Files that are open stay usable. Paths
    that do not exist are left out.

    Raises:
        RuntimeError: the process has several threads already, which would not be restricted.
        OSError: Landlock refused.
    """
    library = importlib.import_module("landlock")
    threads = len(os.listdir(_THREADS))  # noqa: PTH208 - numbers are counted
    if threads != 1:
        raise RuntimeError(f"Landlock binds one thread, but the process has {threads}")
    rights = library.FSAccess
    ctypes.set_errno(0)
    rules = library.Ruleset()
    _allow(rules, access.read, rights.READ_FILE)
    _allow(rules, access.list, rights.READ_DIR)
    _allow(rules, access.write, _writing(rights))
    ctypes.set_errno(0)
    rules.apply()


def _writing(rights: Any) -> Any:
    """Return the rights for writing, without those to run programs or create devices or links."""
    return (
        rights.READ_FILE
        | rights.READ_DIR
        | rights.WRITE_FILE
        | rights.TRUNCATE
        | rights.MAKE_REG
        | rights.MAKE_DIR
        | rights.REMOVE_FILE
        | rights.REMOVE_DIR
        | rights.REFER
    )


def _allow(rules: Any, paths: Iterable[str], rights: Any) -> None:
    """Allow `rights` below paths; a file gets only the rights that apply to files."""
    of_files = importlib.import_module("landlock").FSAccess.all_file()
    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110 - texts
            continue
        applicable = rights if os.path.isdir(path) else rights & of_files  # noqa: PTH112
        if applicable:
            ctypes.set_errno(0)
            rules.allow(path, rules=applicable)
