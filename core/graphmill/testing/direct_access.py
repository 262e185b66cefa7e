"""Find kernels that open files, connect or start processes without the broker of their node.

Python reports such calls to audit hooks. A call counts if the stack has a function of the kernels'
packages, and no function of `graphmill.access` above it: `graphmill.files` opens any file, so a
kernel that calls it is found as well.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FrameType

_EVENTS: Final = (
    *("open", "os.chmod", "os.link", "os.listdir", "os.mkdir", "os.remove", "os.rename"),
    *("os.rmdir", "os.scandir", "os.symlink", "os.truncate", "os.system", "os.kill", "os.exec"),
    *("os.posix_spawn", "shutil.rmtree", "socket.connect", "sqlite3.connect", "subprocess.Popen"),
)
_BROKER: Final = ("graphmill.access", "importlib", "_frozen_importlib")
_OPENERS: Final = ("graphmill.files", "graphmill.saved", "graphmill.tf_record")


class _Watch:
    """The audit hook of the process, which cannot be removed; without packages it does nothing.

    Threads: `lock` is held while there are packages, so that two tests do not mix.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.packages: tuple[str, ...] = ()
        self.found: list[str] = []
        self.is_installed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Record an event that a kernel has caused without the broker."""
        if not self.packages or event not in _EVENTS:
            return
        caller = self._kernel_frame(sys._getframe(1))  # noqa: SLF001 - the only way to see the stack
        if caller is not None and not _is_of_package(arguments, caller):
            name = caller.f_globals.get("__name__")
            subject = f" {arguments[0]!r}" if arguments else ""
            self.found.append(f"{name}.{caller.f_code.co_name}: {event}{subject}")

    def _kernel_frame(self, frame: FrameType | None) -> FrameType | None:
        """Return the frame of a kernel's function that has caused an event without the broker."""
        while frame is not None:
            name = str(frame.f_globals.get("__name__", ""))
            if _is_within(name, self.packages):
                return frame
            is_ours = _is_within(name, ("graphmill",)) and not _is_within(name, _OPENERS)
            if is_ours or _is_within(name, _BROKER):
                return None
            frame = frame.f_back
        return None


_WATCH: Final = _Watch()


@contextmanager
def direct_accesses(packages: Iterable[str]) -> Iterator[list[str]]:
    """Collect accesses without the broker by functions of some packages in a `with` block.

    Args:
        packages: the packages, or modules, of the kernels.

    Yields:
        A list that is filled with texts such as "mine.kernels.read: open '/etc/hosts'".
    """
    with _WATCH.lock:
        if not _WATCH.is_installed:
            _WATCH.is_installed = True
            sys.addaudithook(_WATCH)
        accesses: list[str] = []
        _WATCH.found = accesses
        _WATCH.packages = tuple(packages)
        try:
            yield accesses
        finally:
            _WATCH.packages = ()


def _is_within(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _is_of_package(arguments: tuple[Any, ...], caller: FrameType) -> bool:
    """Return whether an event is about a file that belongs to the kernel's own package."""
    home = Path(caller.f_code.co_filename).parent
    subject = arguments[0] if arguments else None
    return isinstance(subject, (str, Path)) and Path(subject).is_relative_to(home)
