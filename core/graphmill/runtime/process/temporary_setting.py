"""`TemporarySetting`: change a setting of the interpreter while any of its users needs it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from graphmill.runtime.process import fork

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.process.effects import ProcessEffect

Value = TypeVar("Value")


class TemporarySetting(Generic[Value]):
    """A context in which a setting of the process is changed; restored when the last one ends.

    A value that the program sets meanwhile is not overwritten.

    Args:
        effect: the declared effect; the context does nothing if the user has switched it off.
        read, write: read and write the setting.
        changed: returns the value for the context from the one before.

    Threads: `_lock` guards the count.
    """

    def __init__(
        self,
        effect: ProcessEffect,
        read: Callable[[], Value],
        write: Callable[[Value], None],
        changed: Callable[[Value], Value],
    ) -> None:
        self._effect = effect
        self._read, self._write, self._changed = read, write, changed
        self._lock = threading.Lock()
        self._users = 0
        self._values: tuple[Value, Value] | None = None  # before, and within the context
        fork.track_forks(self)

    def __enter__(self) -> None:
        if not self._effect.is_enabled:
            return
        with self._lock:
            self._users += 1
            if self._users == 1:
                before = self._read()
                self._write(self._changed(before))
                self._values = before, self._read()

    def __exit__(self, *_: object) -> None:
        if not self._effect.is_enabled:
            return
        with self._lock:
            self._users -= 1
            if not self._users:
                self._restore()

    def _restore(self) -> None:
        assert self._values is not None
        before, ours = self._values
        if self._read() == ours:
            self._write(before)

    def after_fork_in_child(self) -> None:
        """Restore the setting: the threads that changed it are not in this process."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._restore()
