"""`LiveSessions`: weak references to a host's open sessions, for `reset`."""

from __future__ import annotations

import gc
import weakref
from typing import Any

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process.fork import fork_safe_lock


class LiveSessions:
    """A set of sessions that does not keep them alive.

    Threads: `_lock` guards the set.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self._by_metadata: weakref.WeakValueDictionary[tuple[str, int], Any] = (
            weakref.WeakValueDictionary()
        )

    def add(self, session: Any, metadata: Any = None) -> None:
        """Add an open session.

        Args:
            session: the session.
            metadata: its `SessionMetadata` message; None for none.

        Raises:
            InvalidArgumentError: an open session has the same metadata, or its version is negative.
        """
        if metadata is not None and self._has(metadata):
            gc.collect()  # a session that was dropped, not closed, may still exist
        with self._lock:
            if metadata is not None:
                self._add_metadata(session, metadata)
            self._sessions.add(session)

    def _has(self, metadata: Any) -> bool:
        with self._lock:
            return (metadata.name, metadata.version) in self._by_metadata

    def _add_metadata(self, session: Any, metadata: Any) -> None:
        if metadata.version < 0:
            raise InvalidArgumentError(
                f"Session version shouldn't be negative: session_metadata has name "
                f"{metadata.name!r} and version {metadata.version}"
            )
        key = metadata.name, metadata.version
        if key in self._by_metadata:
            raise InvalidArgumentError(
                "A session with the same name and version has already been created: "
                f"session_metadata has name {metadata.name!r} and version {metadata.version}; "
                "close the other session first, or give this one another version"
            )
        self._by_metadata[key] = session

    def discard(self, session: Any) -> None:
        """Remove a closed session."""
        with self._lock:
            self._sessions.discard(session)
            for key, other in list(self._by_metadata.items()):
                if other is session:
                    del self._by_metadata[key]

    def snapshot(self) -> list[Any]:
        """Return the open sessions."""
        with self._lock:
            return list(self._sessions)
