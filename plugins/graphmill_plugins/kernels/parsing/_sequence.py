"""Parse sequence examples into columns: contexts and feature lists.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.protos import iterate_fields
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.parsing._batch_scan import Scan
from graphmill_plugins.kernels.parsing._columns import (
    dense_values,
    ragged_values,
    sparse_values,
    splits,
)
from graphmill_plugins.kernels.parsing._entry_headers import Headers
from graphmill_plugins.kernels.parsing._example import check_message
from graphmill_plugins.kernels.parsing.example import where_texts
from graphmill_plugins.kernels.parsing.sequence_columns import StepScan
from graphmill_plugins.kernels.segment_reduce import within_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._columns import DenseColumn
    from graphmill_plugins.kernels.parsing.sequence_columns import Steps


@dataclass(frozen=True, slots=True)
class DenseList:
    """A feature list of which each step has as many values as its shape says.

    Attributes:
        key: its name.
        dtype: its element type.
        shape: of one step's values.
        may_miss: whether an example without it has a list of no steps; else it must be there.
    """

    key: bytes
    dtype: DType
    shape: tuple[int, ...]
    may_miss: bool


def dense_list(key: bytes, dtype: DType, shape: Shape, *, may_miss: bool) -> DenseList:
    """Return a dense feature list.

    Raises:
        InvalidArgumentError: a size of the shape of its steps is unknown.
    """
    if shape is None or -1 in shape:
        raise InvalidArgumentError(
            f"feature_list_dense_shapes[{key.decode(errors='replace')!r}] is {shape_text(shape)}; "
            "all its sizes must be known"
        )
    return DenseList(key, dtype, tuple(shape), may_miss)


@dataclass(frozen=True, slots=True)
class SequenceColumns:
    """The requested columns of sequence examples, in the order of an op's outputs.

    Sparse columns are keys and element types, ragged ones keys and the element types of values
    and splits.
    """

    context_sparse: Sequence[tuple[bytes, DType]]
    context_dense: Sequence[DenseColumn]
    list_sparse: Sequence[tuple[bytes, DType]]
    list_dense: Sequence[DenseList]
    context_ragged: Sequence[tuple[bytes, DType, DType]] = ()
    list_ragged: Sequence[tuple[bytes, DType, DType]] = ()

    @property
    def context_keys(self) -> list[bytes]:
        """The names of all features of contexts."""
        dense = [column.key for column in self.context_dense]
        sparse = [key for key, _ in self.context_sparse]
        return dense + sparse + [key for key, _, _ in self.context_ragged]

    @property
    def list_keys(self) -> list[bytes]:
        """The names of all feature lists."""
        dense = [column.key for column in self.list_dense]
        sparse = [key for key, _ in self.list_sparse]
        return dense + sparse + [key for key, _, _ in self.list_ragged]


def parse_sequences(
    serialized: Value, names: Value, columns: SequenceColumns
) -> tuple[list[Value], ...]:
    """Parse sequence examples, one or a vector of them.

    Args:
        serialized: the messages.
        names: the names of the examples in error messages, or none.
        columns: the requested features.

    Returns:
        The context's sparse indices, values, shapes; its dense values; its ragged values, splits;
        the lists' sparse indices, values, shapes; their dense values and lengths; their ragged
        values, outer splits, inner splits.

    Raises:
        InvalidArgumentError: a message cannot be parsed, has another type of values than asked
            for, or not as many.
    """
    batch = _Batch(serialized, names, columns)
    dense_lists = [batch.list_dense(column) for column in columns.list_dense]
    return (
        *_turned([batch.context_sparse(*column) for column in columns.context_sparse], 3),
        [batch.context_dense(column) for column in columns.context_dense],
        *_turned([batch.context_ragged(*column) for column in columns.context_ragged], 2),
        *_turned([batch.list_sparse(*column) for column in columns.list_sparse], 3),
        *_turned(dense_lists, 2),
        *_turned([batch.list_ragged(*column) for column in columns.list_ragged], 3),
    )


def _turned(parts: Sequence[tuple[Value, ...]], count: int) -> tuple[list[Value], ...]:
    return tuple([part[place] for part in parts] for place in range(count))


class _Batch:
    """Some sequence examples, parsed; columns are asked of it one by one."""

    def __init__(self, serialized: Value, names: Value, columns: SequenceColumns) -> None:
        self._is_batch = serialized.ndim == 1
        self._wheres = where_texts(serialized, names, "debug_name")
        self._context = Scan(Headers(columns.context_keys), self._wheres, "SequenceExample")
        self._lists = StepScan(columns.list_keys, self._wheres)
        for row, content in enumerate(serialized.ravel().tolist()):
            try:
                self._add(row, content)
            except DataLossError as error:
                raise InvalidArgumentError(
                    f"{self._wheres[row]}Could not parse SequenceExample input: {error.message}"
                ) from error

    def _add(self, row: int, content: bytes) -> None:
        for field in iterate_fields(content, 0, len(content)):
            if field.number in (1, 2) and check_message(field.wire_type):
                part = self._context if field.number == 1 else self._lists
                part.add(row, content, field.start, field.end)

    def context_sparse(self, key: bytes, dtype: DType) -> tuple[Value, Value, Value]:
        """Return indices, values and shape of a sparse column of the context."""
        return sparse_values(self._context.column(key, dtype), is_batch=self._is_batch)

    def context_dense(self, column: DenseColumn) -> Value:
        """Return a dense column of the context."""
        rows = self._context.column(column.key, column.dtype)
        return dense_values(column, rows, self._wheres, is_batch=self._is_batch)

    def context_ragged(self, key: bytes, dtype: DType, split: DType) -> tuple[Value, Value]:
        """Return values and splits of a ragged column of the context.

        TensorFlow gives a scalar for the splits of a single example, which has none.
        """
        rows = self._context.column(key, dtype)
        values, row_splits = ragged_values(rows, split, is_batch=self._is_batch)
        return values, row_splits if self._is_batch else np.zeros((), split.as_numpy_dtype)

    def list_sparse(self, key: bytes, dtype: DType) -> tuple[Value, Value, Value]:
        """Return indices, values and shape of a sparse feature list."""
        steps = self._lists.column(key, dtype)
        times, counts = steps.times, steps.rows.counts
        step_of = np.repeat(np.arange(len(counts)), counts)
        time = within_runs(times)[step_of]
        example = np.repeat(np.arange(len(times)), times)[step_of]
        parts = [time, within_runs(counts)]
        shape = [int(times.max(initial=0)), int(counts.max(initial=0))]
        if self._is_batch:
            parts.insert(0, example)
            shape.insert(0, len(times))
        indices = np.stack(parts, axis=1).astype(np.int64)
        return indices, steps.rows.values, np.array(shape, np.int64)

    def list_dense(self, column: DenseList) -> tuple[Value, Value]:
        """Return a dense feature list, padded with zeros, and the length of each example's.

        Raises:
            InvalidArgumentError: a list is missing that may not be, or a step has not as many
                values as its shape says.
        """
        dtype, size = column.dtype, math.prod(column.shape)
        steps = self._lists.column(column.key, dtype)
        lengths = steps.times
        self._check_steps(column, steps)
        longest = int(lengths.max(initial=0))
        blank: Any = b"" if dtype.kind == "s" else 0
        table = np.full((len(lengths), longest, size), blank, dtype.as_numpy_dtype)
        table[np.arange(longest) < lengths[:, None]] = steps.rows.values.reshape(-1, size)
        batch = (len(lengths),) if self._is_batch else ()
        dense = table.reshape(*batch, longest, *column.shape)
        return dense, lengths if self._is_batch else lengths[0]

    def _check_steps(self, column: DenseList, steps: Steps) -> None:
        size = math.prod(column.shape)
        name = column.key.decode(errors="replace")
        wrong = np.flatnonzero(steps.rows.counts != size)
        bad = int(wrong[0]) if len(wrong) else len(steps.rows.counts)
        at = 0
        for length, missing, where in zip(
            steps.times.tolist(), steps.missing, self._wheres, strict=True
        ):
            if missing and not column.may_miss:
                raise InvalidArgumentError(
                    f"{where}Feature list '{name}' is required but could not be found. Did you "
                    "mean to include it in feature_list_dense_missing_assumed_empty or "
                    "feature_list_dense_defaults?"
                )
            if bad < at + length:
                raise InvalidArgumentError(
                    f"{where}Feature list '{name}', step {bad - at} has {steps.rows.counts[bad]} "
                    f"values, expected the shape {shape_text(column.shape)}"
                )
            at += length

    def list_ragged(self, key: bytes, dtype: DType, split: DType) -> tuple[Value, Value, Value]:
        """Return values, splits into times of examples, splits into values of times."""
        steps = self._lists.column(key, dtype)
        inner = splits(steps.rows.counts, split)
        if self._is_batch:
            outer = splits(steps.times, split)
        else:
            outer = np.zeros((), split.as_numpy_dtype)
        return steps.rows.values, outer, inner
