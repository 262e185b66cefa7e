"""`SessionState`: tensors that stay on their device between runs, by handle (row S9).

Semantics: `tensorflow/core/common_runtime/session_state.cc`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from graphmill.typing import Value


class SessionState:
    """The tensors that one session keeps between runs.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._numbers = itertools.count(1)
        self._tensors: dict[str, Value] = {}

    def add(self, node_name: str, value: Value, device: str) -> str:
        """Store a tensor; return its handle, `node:0;index;device`, unique in the session."""
        handle = f"{node_name}:0;{next(self._numbers)};{device}"
        with self._lock:
            self._tensors[handle] = value
        return handle

    def get(self, handle: str) -> Value:
        """Return a stored tensor.

        Raises:
            InvalidArgumentError: no tensor has that handle (any more).
        """
        with self._lock:
            if handle in self._tensors:
                return self._tensors[handle]
        raise self._unknown(handle)

    def delete(self, handle: str) -> None:
        """Drop a stored tensor.

        Raises:
            InvalidArgumentError: no tensor has that handle (any more).
        """
        with self._lock:
            if handle in self._tensors:
                del self._tensors[handle]
                return
        raise self._unknown(handle)

    def clear(self) -> None:
        """Drop all stored tensors."""
        with self._lock:
            self._tensors.clear()

    def __len__(self) -> int:
        return len(self._tensors)

    def _unknown(self, handle: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"The tensor with handle '{handle}' is not in the session store. It was deleted, or it "
            f"belongs to another session; this one keeps {len(self._tensors)}"
        )
