"""`SessionTable`: the sessions of a master by handle; idle ones are collected."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from graphmill.errors import AbortedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.distributed.master.master_session import MasterSession


class SessionTable:
    """The open sessions of a master.

    A client that crashes closes nothing. So each time a session is made, those that have been idle
    for longer than `idle_seconds` are closed.

    Threads: `_lock` guards the table; sessions are closed outside it.

    Args:
        idle_seconds: for how long a session may be idle; 0 for any time, as in TensorFlow.
        clock: gives the time in seconds.
    """

    def __init__(
        self, idle_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}

    def add(self, session: MasterSession) -> str:
        """Add a session; return its handle, which cannot be guessed."""
        self.collect()
        handle = os.urandom(8).hex()
        session.last_use = self._clock()
        with self._lock:
            self._sessions[handle] = session
        return handle

    def find(self, handle: str) -> MasterSession:
        """Return a session, and note that it is used.

        Raises:
            AbortedError: there is none of that handle (any more).
        """
        session = self._sessions.get(handle)
        if session is None:
            raise _not_found(handle)
        session.last_use = self._clock()
        return session

    def remove(self, handle: str) -> MasterSession:
        """Remove a session from the table.

        Raises:
            AbortedError: there is none of that handle (any more).
        """
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            raise _not_found(handle)
        return session

    def remove_all(self) -> list[MasterSession]:
        """Remove all sessions from the table."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
        return sessions

    def all(self) -> list[MasterSession]:
        """Return all sessions."""
        with self._lock:
            return list(self._sessions.values())

    def collect(self) -> int:
        """Close the sessions that have been idle for too long; return their number."""
        if not self._idle_seconds:
            return 0
        oldest = self._clock() - self._idle_seconds
        with self._lock:
            idle = [
                handle
                for handle, session in self._sessions.items()
                if session.last_use < oldest and not session.num_running
            ]
            sessions = [self._sessions.pop(handle) for handle in idle]
        for session in sessions:
            session.close()
        return len(sessions)

    def __len__(self) -> int:
        return len(self._sessions)


def _not_found(handle: str) -> AbortedError:
    return AbortedError(
        f"Session {handle} is not found. It was closed or reset, or the server was restarted; "
        "create a new session"
    )
