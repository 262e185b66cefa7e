"""`CancellationManager`: cancels everything that waits on behalf of a step.

Semantics: `tensorflow/core/framework/cancellation.h`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.errors import OpError
    from graphmill.runtime.steps.waits import Wait, WaitRecord


class Cancellation(Protocol):
    """The interface of cancellation for waiting operations: a `CancellationManager` or a `Wait`."""

    @property
    def is_cancelled(self) -> bool:
        """Whether the step has been cancelled."""
        ...

    @property
    def reason(self) -> OpError | None:
        """The error that cancelled the step, or None."""
        ...

    def register(self, callback: Callable[[], None]) -> int | None:
        """Register a callback for cancellation; return a token, or None if it is too late."""
        ...

    def deregister(self, token: int | None) -> bool:
        """Remove a callback; return False if it was called already or is being called."""
        ...


class CancellationManager:
    """Cancellation of one step or session; child managers are cancelled with their parent.

    Threads: `_lock` guards the callbacks; they are called outside it, each once.

    Attributes:
        is_cancelled: set once, never reset; read without a lock on the executor's hot path.
        reason: the error that cancelled it, or None.
        cancelled_waits: what the step waited for when it was cancelled.
    """

    def __init__(self, parent: Cancellation | None = None) -> None:
        # Managers without a parent belong to sessions; managers of steps must be cheap.
        self._lock = fork_safe_lock() if parent is None else threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_token = 0
        self.is_cancelled = False
        self.reason: OpError | None = None
        self.cancelled_waits: Sequence[WaitRecord] = ()
        self._parent = parent
        self._parent_token: int | None = None
        if parent is not None:
            self._parent_token = parent.register(self._cancel_from_parent)
            if self._parent_token is None:
                self._cancel_from_parent()

    def register(self, callback: Callable[[], None]) -> int | None:
        """Register a callback for cancellation; return a token, or None if it is too late."""
        with self._lock:
            if self.is_cancelled:
                return None
            token = self._next_token
            self._next_token += 1
            self._callbacks[token] = callback
            return token

    def deregister(self, token: int | None) -> bool:
        """Remove a callback; return False if it was called already or is being called."""
        with self._lock:
            return token is not None and self._callbacks.pop(token, None) is not None

    def start_cancel(self, reason: OpError | None = None) -> None:
        """Cancel: call all callbacks once, even if one raises; later calls do nothing."""
        waits = self._waits()
        if waits:
            self.cancelled_waits = [wait.record() for wait in waits]
        with self._lock:
            if self.is_cancelled:
                return
            self.is_cancelled = True
            self.reason = reason
            callbacks = list(self._callbacks.values())
            self._callbacks.clear()
        for callback in callbacks:
            try:
                callback()
            except Exception:  # a plugin's code may raise anything
                # The other callbacks must still run; the error is logged, not raised.
                import logging  # here: a session should not wait for the module

                log = logging.getLogger("graphmill.runtime")
                log.exception("a cancellation callback raised an exception")

    def waits(self) -> list[WaitRecord]:
        """Return what the step, or each step of the session, waits for now."""
        with self._lock:
            callbacks = list(self._callbacks.values())
        records = [wait.record() for wait in self._waits()]
        for callback in callbacks:
            owner = getattr(callback, "__self__", None)
            if isinstance(owner, CancellationManager):
                records.extend(owner.waits())
        return records

    def _waits(self) -> list[Wait]:
        """Return the registered waits; those of child managers are not among them."""
        with self._lock:
            callbacks = list(self._callbacks.values())
        waits = (getattr(callback, "wait", None) for callback in callbacks)
        return [wait for wait in waits if wait is not None]

    def close(self) -> None:
        """Detach from the parent, so that a long-lived parent does not hold finished children."""
        if self._parent is not None:
            self._parent.deregister(self._parent_token)
            self._parent = None

    def _cancel_from_parent(self) -> None:
        parent = self._parent  # another thread may call `close` at the same time
        self.start_cancel(parent.reason if parent is not None else None)
