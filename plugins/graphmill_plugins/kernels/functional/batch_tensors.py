"""Batch: concatenate the rows of several callers, for one of them to compute on.

Semantics: tensorflow/core/kernels/batch_kernels.cc. Nodes of the same name share a batcher, across
steps and across sessions with the same resources.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import OpError
from graphmill.spi import kernel
from graphmill_plugins.kernels.functional._batch_rows import check_sizes, joined, row_count
from graphmill_plugins.kernels.functional._batch_scheduler import Batch, Batcher, Rows
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value


def _has_no_rows(tensors: list[Value]) -> bool:
    return all(np.ndim(tensor) and not len(tensor) for tensor in tensors)


def _index(batch: Batch) -> Value:
    """Return a row (key, start, end) for each caller."""
    ends = np.cumsum([part.count for part in batch.parts])
    starts = ends - [part.count for part in batch.parts]
    keys = [part.key for part in batch.parts]
    return np.stack([np.array(keys, np.int64), starts.astype(np.int64), ends.astype(np.int64)], 1)


@kernel("Batch", host=True, stateful=True, async_=True, effects=("rng", "state"))
class BatchTensors:
    """Return all rows to the caller that came last, and tensors without rows to the others."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._key = resource_key(construction, is_shared_by_node_name=True)
        self._queue: str = construction.attr("batching_queue")
        self._most: int = construction.attr("max_batch_size")
        self._allowed: tuple[int, ...] = tuple(construction.attr("allowed_batch_sizes"))
        check_sizes(self._most, self._allowed, False)
        self._make = partial(
            Batcher,
            construction.attr("num_batch_threads"),
            self._most,
            construction.attr("batch_timeout_micros") / 1e6,
            construction.attr("max_enqueued_batches"),
        )

    def __call__(self, ctx: OpKernelContext, in_tensors: list[Value], done: Any) -> None:
        """Submit the rows to the batcher; `done` receives the batch, its index and the key."""
        if _has_no_rows(in_tensors):
            nothing = np.zeros(0, np.int64)
            done([[tensor.reshape(-1) for tensor in in_tensors], nothing, nothing])
            return
        count = row_count(in_tensors, self._most, False)
        batcher = ctx.resources.lookup_or_create(*self._key, Batcher, self._make)
        run = partial(self._run, ctx, batcher)
        key = secrets.randbits(64) - (1 << 63)
        batcher.submit(
            self._queue,
            Rows(count, in_tensors, run, done, key),
            ctx.wait(lambda: "its batch to be full, or to time out"),
        )

    def _run(self, ctx: OpKernelContext, batcher: Batcher, batch: Batch) -> None:
        padded = next((size for size in self._allowed if size >= batch.count), batch.count)
        try:
            inputs = joined(ctx, batch, padded)
        except OpError as error:
            batcher.ended()
            for part in batch.parts:
                part.done(error=error)
            return
        batcher.ended()
        *others, last = batch.parts
        for part in others:
            empty = [tensor[:0] for tensor in part.inputs]
            part.done([empty, np.zeros((0, 3), np.int64), np.int64(part.key)])
        last.done([inputs, _index(batch), np.int64(last.key)])
