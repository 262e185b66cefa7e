"""`DirectoryWatch`: follow the changes of a cluster's directory, and register a task in it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import CancelledError, OpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.distributed.ray.directory import Registration, Table, Version
    from graphmill_plugins.distributed.ray.engine import Engine, PendingCall

EXCHANGE_SECONDS: Final = 30.0
"""Seconds that a call waits for changes; then the directory drops disconnected callers."""
_END_SECONDS: Final = 1.0
"""Seconds that `close` waits for the thread. Ray does not cancel a call to a restarting actor:
then the thread ends with its call, without notifying anyone."""

_logger = logging.getLogger("graphmill.distributed")


class DirectoryWatch:
    """Polls the directory in a thread until it is closed.

    Args:
        engine: calls the directory.
        directory: its handle.
        mine: the task that this process is, if any.
        seen: the version of the table that the caller has.
        changed: receives each new table, in the watch's thread.

    Threads: any may close it; `_lock` guards the call and the end.
    """

    def __init__(
        self,
        engine: Engine,
        directory: Any,
        mine: Registration | None,
        seen: Version | None,
        changed: Callable[[Table], None],
    ) -> None:
        self._engine, self._directory = engine, directory
        self._mine, self._seen, self._changed = mine, seen, changed
        self._lock = threading.Lock()
        self._is_closed = False
        self._call: PendingCall | None = None
        self._thread = threading.Thread(
            target=self._run, name="graphmill-directory-watch", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End the watch; a second call does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            call = self._call
        if call is not None:
            call.cancel()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_SECONDS)

    def _run(self) -> None:
        try:
            while (call := self._next_call()) is not None:
                table = call.result()
                if table is not None and not self._is_closed:
                    self._seen = table.version
                    self._changed(table)
        except CancelledError:
            if not self._is_closed:
                _logger.warning("the watch of a cluster's directory was cancelled")
        except OpError as error:
            # Ray restarts the directory and repeats calls to it, so a failure is final.
            _logger.warning("the directory of the cluster no longer exists: %s", error)

    def _next_call(self) -> PendingCall | None:
        with self._lock:
            if self._is_closed:
                return None
            self._call = self._engine.call(
                self._directory, "exchange", self._mine, self._seen, EXCHANGE_SECONDS
            )
            return self._call
