"""`LiveSessions`: the open sessions of a host, held weakly, so that `reset` can reach them."""

from __future__ import annotations

import weakref
from typing import Any

from graphmill.runtime.process.fork import fork_safe_lock


class LiveSessions:
    """A set of sessions that does not keep them alive.

    Threads: `_lock` guards the set.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, session: Any) -> None:
        """Add a session that was opened."""
        with self._lock:
            self._sessions.add(session)

    def discard(self, session: Any) -> None:
        """Remove a session that was closed."""
        with self._lock:
            self._sessions.discard(session)

    def snapshot(self) -> list[Any]:
        """Return the sessions that are open now."""
        with self._lock:
            return list(self._sessions)
