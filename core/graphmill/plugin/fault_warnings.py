"""`FaultWarnings`: warns the user once that a plugin's code failed where the step goes on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from graphmill.registry import PluginWarning
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Hashable


class FaultWarnings:
    """The faults of plugins that a host has warned of.

    Threads: `_lock` guards the set.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._warned: set[Hashable] = set()

    def warn(self, subject: Hashable, text: str) -> None:
        """Issue a `PluginWarning`, unless there was one of the same subject.

        Args:
            subject: what failed: the plugin and its kernel or pass.
            text: the warning.
        """
        with self._lock:
            if subject in self._warned:
                return
            self._warned.add(subject)
        warnings.warn(text, PluginWarning, stacklevel=3)
