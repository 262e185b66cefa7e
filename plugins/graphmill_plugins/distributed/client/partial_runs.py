"""Partial runs on a master: track the pending feeds and fetches of each."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi.cluster import Signature
    from graphmill.spi.protos import proto


class PartialRun:
    """An unfinished partial run.

    Attributes:
        options: the options of its setup.
        pending: feeds and fetches that are pending.
    """

    def __init__(self, signature: Signature, options: proto.RunOptions | None) -> None:
        feeds, fetches, _ = signature
        self.options = options
        self.pending = {("feed", name) for name in feeds} | {("fetch", name) for name in fetches}


class PartialRuns:
    """The unfinished partial runs of one session, by handle.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, PartialRun] = {}

    def add(self, handle: str, run: PartialRun) -> None:
        """Add a new partial run."""
        with self._lock:
            self._runs[handle] = run

    def get(self, handle: str) -> PartialRun:
        """Return a partial run.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """
        with self._lock:
            run = self._runs.get(handle)
        if run is None:
            raise InvalidArgumentError(
                f"there is no partial run {handle!r}; it is finished, or belongs to another session"
            )
        return run

    def advance(self, handle: str, feeds: Iterable[str], fetches: Iterable[str]) -> None:
        """Record feeds and fetches; a partial run without pending ones is finished."""
        with self._lock:
            run = self._runs.get(handle)
            if run is None:
                return
            run.pending -= {("feed", name) for name in feeds}
            run.pending -= {("fetch", name) for name in fetches}
            if not run.pending:
                del self._runs[handle]

    def remove(self, handle: str) -> None:
        """Remove a partial run, if it exists."""
        with self._lock:
            self._runs.pop(handle, None)
