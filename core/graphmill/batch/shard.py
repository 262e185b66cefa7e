"""Run the shard of one process, and store its results."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Final

from graphmill.batch.progress import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphmill.batch.row import Row
    from graphmill.batch.runner import BatchResult
    from graphmill.batch.settings import Prepared
    from graphmill.batch.sources import SourceFile
    from graphmill.batch.store import ResultStore

_MAX_ROWS: Final = 1024
_MAX_SECONDS: Final = 5.0
"""Results are written after this many rows, or after this many seconds."""
_BATCHES_PER_STRIPE: Final = 4


class Shard:
    """The rows that one of several processes runs: every n-th stripe of consecutive rows.

    Args:
        job: the number of this process.
        jobs: the number of processes.
        batch_size: the rows in a step; a stripe has a few batches.
        done: the ranges of rows that need not be run again, sorted.
    """

    def __init__(
        self, job: int, jobs: int, batch_size: int, done: Sequence[tuple[int, int]]
    ) -> None:
        self._job = job
        self._jobs = jobs
        self._stripe = batch_size * _BATCHES_PER_STRIPE
        self._starts = [start for start, _ in done]
        self._stops = [stop for _, stop in done]

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows of this shard that are not done yet."""
        for row in rows:
            if (row.index // self._stripe) % self._jobs == self._job and not self._is_done(row):
                yield row

    def _is_done(self, row: Row) -> bool:
        position = bisect.bisect_right(self._starts, row.index) - 1
        return position >= 0 and row.index < self._stops[position]


def run_shard(
    prepared: Prepared,
    sources: Sequence[SourceFile],
    shard: Shard,
    store: ResultStore,
    report: Callable[[BatchResult], None],
) -> None:
    """Run the rows of a shard, and store their results.

    Computed results are stored even if a row then fails or the run is interrupted.

    Args:
        prepared: reads and runs rows.
        sources: the files.
        shard: which of their rows to run.
        store: where results are written.
        report: is called after each step.

    Raises:
        OpError: a row failed, or the results cannot be written.
    """
    pending: list[BatchResult] = []
    clock = Stopwatch()
    try:
        for result in prepared.runner.results(shard.rows(prepared.reader.read(sources))):
            if pending and _must_write(pending, result, clock):
                _write(store, pending)
                clock = Stopwatch()
            pending.append(result)
            report(result)
    finally:
        _write(store, pending)


def _must_write(pending: list[BatchResult], result: BatchResult, clock: Stopwatch) -> bool:
    start, stop = pending[0].span[0], pending[-1].span[1]
    is_long = stop - start >= _MAX_ROWS or clock.seconds > _MAX_SECONDS
    return is_long or stop != result.span[0]


def _write(store: ResultStore, pending: list[BatchResult]) -> None:
    if pending:
        results = pending[:]
        pending.clear()
        store.add(results[0].span[0], results[-1].span[1], results)
