"""BatchFunction: call a function once for the rows of several callers.

Semantics: tensorflow/core/kernels/batch_kernels.cc. Nodes of the same name share a batcher, across
steps and across sessions with the same resources.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError, OpError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import namespace_of, shape_text
from graphmill_plugins.kernels.functional._batch_rows import check_sizes, joined, row_count
from graphmill_plugins.kernels.functional._batch_scheduler import Batch, Batcher, Rows
from graphmill_plugins.kernels.functional._results import check_results
from graphmill_plugins.kernels.state.value import node_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]


@kernel("BatchFunction", async_=True)
class BatchFunction:
    """Call a function with the rows of all callers that arrive about the same time."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._key = node_key(construction)
        self._queue: str = construction.attr("batching_queue")
        self._most: int = construction.attr("max_batch_size")
        self._allowed: tuple[int, ...] = tuple(construction.attr("allowed_batch_sizes"))
        self._splits: bool = construction.attr("enable_large_batch_splitting")
        self._function = construction.attr("f")
        self._types = construction.attr("Tout")
        check_sizes(self._most, self._allowed, self._splits)
        largest = self._allowed[-1] if self._splits and self._allowed else self._most
        timeout = construction.attr("batch_timeout_micros") / 1e6
        threads = construction.attr("num_batch_threads")
        waiting = construction.attr("max_enqueued_batches")
        self._make = partial(Batcher, threads, largest, timeout, waiting)

    def __call__(
        self,
        ctx: OpKernelContext,
        in_tensors: list[Value],
        captured_tensors: list[Value],
        done: Done,
    ) -> None:
        """Submit the rows to the batcher; `done` receives their part of the results."""
        rows = row_count(in_tensors, self._most, self._splits)
        batcher = ctx.resources.lookup_or_create(*self._key, Batcher, self._make)
        run = partial(self._post, ctx, captured_tensors, batcher)
        if rows <= batcher.largest:
            parts = [Rows(rows, in_tensors, run, done)]
        else:
            parts = _parts(ctx, in_tensors, rows, batcher.largest, run, done)
        for part in parts:
            batcher.submit(
                self._queue, part, ctx.wait(lambda: "its batch to be full, or to time out")
            )

    def _post(
        self, ctx: OpKernelContext, captured: list[Value], batcher: Batcher, batch: Batch
    ) -> None:
        """Schedule a batch on the executor thread of a step."""
        ctx.args.runner.post(lambda: self._run(ctx, captured, batcher, batch))

    def _run(
        self, ctx: OpKernelContext, captured: list[Value], batcher: Batcher, batch: Batch
    ) -> None:
        padded = next((size for size in self._allowed if size >= batch.count), batch.count)

        def called(results: Any = None, error: BaseException | None = None) -> None:
            batcher.ended()
            if error is None:
                error = _wrong_results(self._function.name, results, self._types)
            _hand_out(batch, padded, results or (), error)

        try:
            inputs = joined(ctx, batch, padded)
            handle = ctx.state.get("f")
            if handle is None:
                new_handle = ctx.functions.instantiate(self._function.name, self._function.attrs)
                handle = ctx.state.setdefault("f", new_handle)
            ctx.functions.run_async(handle, [*inputs, *captured], ctx, called)
        except OpError as error:
            called(error=error)


def _wrong_results(
    name: str, results: Sequence[Value], types: Sequence[np.dtype[Any]]
) -> InvalidArgumentError | None:
    """Return the error for results that are not those of the node, or None."""
    try:
        check_results(name, results, types)
    except InvalidArgumentError as error:
        return error
    return None


def _parts(
    ctx: OpKernelContext,
    inputs: list[Value],
    count: int,
    largest: int,
    run: Callable[[Batch], None],
    done: Done,
) -> list[Rows]:
    """Split the rows of a caller into parts that fit a batch; `done` gets the joined results."""
    starts = range(0, count, largest)
    results: dict[int, Any] = {}
    errors: list[BaseException] = []
    lock = threading.Lock()  # the parts may complete in other callers' threads

    def part_done(start: int, values: Any = None, error: BaseException | None = None) -> None:
        with lock:
            results[start] = values
            if error is not None:
                errors.append(error)
            if len(results) < len(starts):
                return
        if errors:
            done(error=errors[0])
            return
        pieces = zip(*(results[start] for start in starts), strict=True)
        done([namespace_of(ctx.xp, piece[0]).concatenate(piece) for piece in pieces])

    return [
        Rows(
            min(largest, count - start),
            [tensor[start : start + largest] for tensor in inputs],
            run,
            partial(part_done, start),
        )
        for start in starts
    ]


def _hand_out(
    batch: Batch, padded: int, results: Sequence[Value], error: BaseException | None
) -> None:
    """Pass each caller its rows of the results, or pass the error to all callers."""
    for value in results:
        if not np.ndim(value) or len(value) != padded:
            error = FailedPreconditionError(
                "Batched output tensor's 0th dimension does not equal the sum of the 0th "
                f"dimension sizes of the input tensors: {shape_text(np.shape(value))} for "
                f"{padded} rows"
            )
    start = 0
    for part in batch.parts:
        if error is not None:
            part.done(error=error)
        else:
            part.done([value[start : start + part.count] for value in results])
        start += part.count
