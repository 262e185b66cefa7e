"""`SessionState`: tensors that stay on their device between runs, by handle (clause S9).

Semantics: `tensorflow/core/common_runtime/session_state.cc`.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.typing import Value


class StoredTensor:
    """A reference to a stored tensor: the resource of the handle of `GetSessionHandleV2`.

    Attributes:
        handle: the tensor's handle.
    """

    __slots__ = ("_state", "handle")

    def __init__(self, state: SessionState, handle: str) -> None:
        self._state = state
        self.handle = handle

    @property
    def value(self) -> Value:
        """The tensor (`InvalidArgumentError` if it was deleted)."""
        return self._state.get(self.handle)


class SessionState:
    """The tensors that one session keeps between runs.

    A tensor that a step stores is kept if the step also fetches its handle; otherwise nobody could
    name it, and it is dropped when the step ends.

    Semantics: `TensorStore` in `tensorflow/core/framework/session_state.h`.

    Threads: `_lock` guards the tables.

    Args:
        keeps_all: keep what a step stores in any case; for the workers of a cluster, which do not
            know what the client of their master fetches.
    """

    def __init__(self, *, keeps_all: bool = False) -> None:
        self._keeps_all = keeps_all
        self._lock = fork_safe_lock()
        self._numbers = itertools.count(1)
        self._tensors: dict[str, Value] = {}
        self._of_steps: dict[int, dict[str, str]] = {}
        """Handles of running steps that may have to be dropped, with the names of their nodes."""

    def add(self, node_name: str, value: Value, device: str, step_id: int) -> str:
        """Store a tensor; return its handle, `node:0;index;device`, unique in the session.

        Args:
            node_name: the node that stores it.
            value: the tensor.
            device: the device that holds it.
            step_id: the step, which ends with `finish_step`.
        """
        handle = f"{node_name}:0;{next(self._numbers)};{device}"
        with self._lock:
            self._tensors[handle] = value
            if not self._keeps_all:
                self._of_steps.setdefault(step_id, {})[handle] = node_name
        return handle

    @property
    def has_unsettled(self) -> bool:
        """Whether a running step has stored tensors."""
        return bool(self._of_steps)

    def finish_step(self, step_id: int, fetches: Iterable[str]) -> None:
        """End a step: drop the tensors that it stored without fetching their handles.

        Args:
            step_id: the step.
            fetches: names of the tensors that it has fetched; none if it failed.
        """
        with self._lock:
            stored = self._of_steps.pop(step_id, {})
            nodes = {name.partition(":")[0] for name in fetches}
            for handle, node_name in stored.items():
                if node_name not in nodes:
                    self._tensors.pop(handle, None)

    def get(self, handle: str) -> Value:
        """Return a stored tensor.

        Raises:
            InvalidArgumentError: no tensor has that handle (any more).
        """
        with self._lock:
            if handle in self._tensors:
                return self._tensors[handle]
        raise self._unknown(handle)

    def reference(self, handle: str) -> StoredTensor:
        """Return the resource of a handle."""
        return StoredTensor(self, handle)

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
            f"belongs to another session; this one stores {len(self._tensors)}"
        )
