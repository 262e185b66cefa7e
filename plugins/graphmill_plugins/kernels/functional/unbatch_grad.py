"""UnbatchGrad: concatenate the gradients of a batch's rows from several steps.

Semantics: tensorflow/core/kernels/batch_kernels.cc. Nodes of the same name share their gradients,
across steps and across sessions with the same resources. Each step passes the key (`id`) of its
rows; one of them also passes the batch, whose index has a row (key, start, end) for each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import CancelledError, InternalError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.process import fork_safe_lock, track_forks
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation, OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]
    Call = Callable[[], None]


def _key(value: Value) -> int:
    if np.ndim(value):
        raise InvalidArgumentError(
            f"Expected `id` to be scalar. Received shape {shape_text(np.shape(value))}"
        )
    return int(value)


def _index(value: Value) -> list[list[int]]:
    if np.ndim(value) != 2 or value.shape[1] != 3:
        raise InvalidArgumentError(
            "Wrong shape for index tensor: batch_index must have rows of 3 elements, got "
            f"{shape_text(np.shape(value))}"
        )
    rows: list[list[int]] = value.tolist()
    return rows


@dataclass(slots=True)
class _WaitingBatch:
    """A step with a batch that waits for the gradients of some of its rows."""

    keys: list[int]
    missing: set[int]
    dtype: np.dtype[Any]
    done: Done


class Gradients:
    """The gradients of steps, and the batches that wait for them.

    Threads: `_lock` guards all state; no callback runs under it.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._available: dict[int, Value] = {}
        self._waiting: dict[int, _WaitingBatch] = {}
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Drop the waiting steps, which do not exist in this process."""
        self._waiting.clear()

    def submit(
        self,
        key: int,
        gradient: Value,
        keys: list[int] | None,
        done: Done,
        cancellation: Cancellation | None,
    ) -> None:
        """Add the gradient of a step; call `done` when all gradients of its batch have arrived.

        `keys` lists the keys in the step's batch, or is None if the step has no batch.

        Raises:
            InvalidArgumentError: the key already exists, or a gradient is wanted twice.
        """
        calls: list[Call] = []
        with self._lock:
            if key in self._available:
                raise InvalidArgumentError("Two runs with the same batch key.")
            self._check(key, keys)
            self._available[key] = gradient
            if keys is not None:
                missing = {other for other in keys if other not in self._available}
                self._waiting[key] = _WaitingBatch(keys, missing, gradient.dtype, done)
            for batch_key, batch in list(self._waiting.items()):
                batch.missing.discard(key)
                if not batch.missing:
                    del self._waiting[batch_key]
                    calls.append(self._joined(batch))
            waits = key in self._waiting
        if waits:
            self._watch(key, cancellation)
        for call in calls:
            call()

    def _check(self, key: int, keys: list[int] | None) -> None:
        if keys is None:
            return
        if key in self._waiting:
            raise InvalidArgumentError("Batch key with valid batch used twice.")
        if any(batch.missing.intersection(keys) for batch in self._waiting.values()):
            raise InvalidArgumentError("Missing tensor wanted by more than one batch.")

    def _joined(self, batch: _WaitingBatch) -> Call:
        parts = [self._available.pop(key, None) for key in batch.keys]
        if any(part is None for part in parts):
            return partial(batch.done, error=InternalError("bad bookkeeping of available tensors."))
        if any(part.dtype != batch.dtype for part in parts):
            types = ", ".join(sorted({part.dtype.name for part in parts}))
            error = InvalidArgumentError(
                f"a batch of {batch.dtype.name} cannot have gradients of {types}"
            )
            return partial(batch.done, error=error)
        if len({np.shape(part)[1:] for part in parts}) > 1 or not np.ndim(parts[0]):
            shapes = " and ".join(shape_text(np.shape(part)) for part in parts)
            error = InvalidArgumentError(f"Dimensions of inputs should match: shapes {shapes}")
            return partial(batch.done, error=error)
        return partial(batch.done, np.concatenate(parts))

    def _watch(self, key: int, cancellation: Cancellation | None) -> None:
        """Stop waiting for a batch when its step is cancelled."""
        if cancellation is None:
            return
        with self._lock:
            batch = self._waiting.get(key)
            if batch is None:
                return
            finished = batch.done
        token = cancellation.register(lambda: self._withdraw(key))
        if token is None:
            self._withdraw(key)
            return

        def done(*results: Any, **error: Any) -> None:
            cancellation.deregister(token)
            finished(*results, **error)

        batch.done = done

    def _withdraw(self, key: int) -> None:
        with self._lock:
            batch = self._waiting.pop(key, None)
        if batch is not None:
            batch.done(error=CancelledError("the step was cancelled while it waited for gradients"))


@kernel("UnbatchGrad", async_=True)
class UnbatchGrad:
    """Concatenate the gradients from the steps of a batch."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._key = resource_key(construction, is_shared_by_node_name=True)

    def __call__(
        self,
        ctx: OpKernelContext,
        original_input: Value,
        batch_index: Value,
        grad: Value,
        id: Value,  # noqa: A002 - the name of the op's input
        done: Done,
    ) -> None:
        """Add this step's gradient; only the step that passed the batch receives rows."""
        key = _key(id)
        gradients: Gradients = ctx.resources.lookup_or_create(*self._key, Gradients, Gradients)
        keys: list[int] | None = None
        if np.size(original_input):
            if not np.size(batch_index):
                raise InvalidArgumentError("batch_index is empty while the tensor isn't.")
            keys = [row[0] for row in _index(batch_index)]
        elif not np.ndim(grad):
            raise InvalidArgumentError("grad must have rows, got a scalar")
        gradients.submit(key, grad, keys, done, ctx.wait(lambda: "the gradients of its batch"))
        if keys is None:
            done(grad[:0])
