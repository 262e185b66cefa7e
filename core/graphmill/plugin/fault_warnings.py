"""`FaultWarnings`: warns once about a plugin fault that does not fail the step."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from graphmill.registry import PluginWarning
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Hashable


class FaultWarnings:
    """Warn once about each fault of a plugin on a host.

    Threads: `_lock` guards the set.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._warned: set[Hashable] = set()

    def warn(self, subject: Hashable, text: str) -> None:
        """Issue a `PluginWarning`, unless one was issued for the same subject.

        Args:
            subject: key of what failed: the plugin and its kernel or pass.
            text: the warning.
        """
        with self._lock:
            if subject in self._warned:
                return
            self._warned.add(subject)
        warnings.warn(text, PluginWarning, stacklevel=3)
