"""Run a model on rows, a batch in each step, while the next batches are read and converted."""

from __future__ import annotations

import itertools
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from graphmill.batch.conversion import Batch
from graphmill.batch.row import Failure
from graphmill.errors import CancelledError, InvalidArgumentError, OpError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from graphmill.batch.conversion import RowConverter
    from graphmill.batch.row import Row
    from graphmill.models.loaded_model import LoadedModel

    Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_MAX_CONVERTERS: Final = 4
_LARGE_ROW_BYTES: Final = 8192
"""Rows of at least this size are mostly images, which are decoded outside of the GIL."""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The outputs and failures of the rows of a batch.

    Attributes:
        rows: those with outputs, in order.
        outputs: for each output an array with one element for each of these rows.
        failures: the rows without outputs, in order.
        span: the index of its first row, and the one after its last.
        position: the bytes of all files that were read up to its end.
    """

    rows: Sequence[Row]
    outputs: Mapping[str, Array]
    failures: Sequence[Failure]
    span: tuple[int, int]
    position: int

    def summary(self) -> dict[str, Any]:
        """Return the counts and failures that the progress of a run needs, as JSON data."""
        return {
            "rows": len(self.rows),
            "failures": [failed.text for failed in self.failures],
            "position": self.position,
        }


class BatchRunner:
    """Run a model on batches of rows.

    Args:
        model: the model.
        converter: converts rows to the model's inputs.
        constants: the inputs that are the same for all rows.
        batch_size: the number of rows in a step.
        timeout: the seconds that a step may take; None for no limit.
        keep_going: whether a row that fails is reported and left out, rather than ending the run.
    """

    def __init__(
        self,
        model: LoadedModel,
        converter: RowConverter,
        *,
        constants: Mapping[str, Any],
        batch_size: int,
        timeout: float | None,
        keep_going: bool,
    ) -> None:
        self._model = model
        self._converter = converter
        self._constants = constants
        self._size = min(batch_size, converter.max_rows or batch_size)
        self._timeout = timeout
        self._keep_going = keep_going

    def results(self, rows: Iterable[Row]) -> Iterator[BatchResult]:
        """Yield the result of each batch.

        Raises:
            OpError: a row failed, and `keep_going` is off; or the session was closed.
        """
        for batch in self._converted(rows):
            if batch.failures and not self._keep_going:
                raise _located(batch.failures[0])
            yield self._result(batch)

    def _converted(self, rows: Iterable[Row]) -> Iterator[Batch]:
        """Convert batches in threads, a few ahead of the one that runs."""
        groups = _groups(rows, self._size)
        first = list(itertools.islice(groups, 1))
        count = converter_count(first[0]) if first else 1
        with ThreadPoolExecutor(count, "graphmill-batch-converter") as pool:
            pending = deque(
                pool.submit(self._converter.convert, group)
                for group in itertools.chain(first, itertools.islice(groups, count))
            )
            while pending:
                batch = pending.popleft().result()
                for group in itertools.islice(groups, 1):
                    pending.append(pool.submit(self._converter.convert, group))
                yield batch

    def _result(self, batch: Batch) -> BatchResult:
        if not batch.converted:
            return BatchResult([], {}, batch.failures, batch.span, batch.position)
        try:
            results = self._model.run({**batch.values, **self._constants}, self._timeout)
        except CancelledError:
            raise
        except OpError as error:
            return self._isolated(batch, error)
        count = len(batch.converted)
        outputs = {name: self._by_row(name, value, count) for name, value in results.items()}
        return BatchResult(batch.converted, outputs, batch.failures, batch.span, batch.position)

    def _isolated(self, batch: Batch, error: OpError) -> BatchResult:
        """Run the halves of a failed batch, to find the rows that fail; keep their order."""
        if len(batch.converted) == 1:
            failure = Failure(batch.converted[0], error)
            if not self._keep_going:
                raise _located(failure)
            failures = sorted([*batch.failures, failure], key=lambda failed: failed.row.index)
            return BatchResult([], {}, failures, batch.span, batch.position)
        middle = len(batch.converted) // 2
        halves = [
            self._result(
                Batch(
                    batch.rows,
                    batch.converted[part],
                    {name: value[part] for name, value in batch.values.items()},
                    (),
                )
            )
            for part in (slice(middle), slice(middle, None))
        ]
        failures = sorted(
            itertools.chain(batch.failures, *(half.failures for half in halves)),
            key=lambda failed: failed.row.index,
        )
        with_rows = [half for half in halves if half.rows]
        names = with_rows[0].outputs if with_rows else ()
        outputs = {name: _joined([half.outputs[name] for half in with_rows]) for name in names}
        rows = [row for half in halves for row in half.rows]
        return BatchResult(rows, outputs, failures, batch.span, batch.position)

    def _by_row(self, name: str, value: Any, count: int) -> Array:
        """Return an output with one element for each row."""
        array = np.asarray(value)
        if self._converter.has_batch and array.ndim and array.shape[0] == count:
            return array
        if count == 1:
            return array[np.newaxis]
        error = InvalidArgumentError(
            f"output {name!r} has shape {list(array.shape)} for {count} rows; expected one value "
            "for each row"
        )
        error.add_note("try: --fetch with the outputs that have one, or --batch 1 (batch_size=1)")
        raise error


def converter_count(rows: Sequence[Row]) -> int:
    """Return the number of threads that convert rows like these.

    One thread converts small rows: that is mostly work under the GIL, which several threads would
    wait for longer than they work.
    """
    last = rows[-1]
    if last.position < _LARGE_ROW_BYTES * (last.index + 1):
        return 1
    return min(_MAX_CONVERTERS, os.cpu_count() or 1)


def _groups(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Yield consecutive rows in groups; a gap in their indices starts a new group."""
    group: list[Row] = []
    for row in rows:
        if group and (len(group) == size or row.index != group[-1].index + 1):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _joined(parts: Sequence[Array]) -> Array:
    shapes = {part.shape[1:] for part in parts}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"rows of one batch have outputs of shapes {sorted(map(list, shapes))}; "
            "use --batch 1 (batch_size=1)"
        )
    return np.concatenate(parts)


def _located(failure: Failure) -> OpError:
    """Return the error of a row, with a note that names the row unless the message does."""
    error, location = failure.error, failure.row.location
    if location not in error.message:
        error.add_note(f"row: {location}")
    return error
