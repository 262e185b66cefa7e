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
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.parsing._batch_scan import Scan, checked, field_at
from graphmill_plugins.kernels.parsing._columns import (
    dense_values,
    ragged_values,
    sparse_values,
    splits,
)
from graphmill_plugins.kernels.parsing._entry_headers import FIRST, SECOND
from graphmill_plugins.kernels.parsing._example import check_message
from graphmill_plugins.kernels.parsing.example import error_prefixes
from graphmill_plugins.kernels.parsing.sequence_columns import FeatureListScan
from graphmill_plugins.kernels.segment_reduce import within_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._columns import DenseColumn
    from graphmill_plugins.kernels.parsing._entry_headers import HeaderCache
    from graphmill_plugins.kernels.parsing.sequence_columns import Steps


@dataclass(frozen=True, slots=True)
class DenseList:
    """A feature list with values of a fixed shape in each step.

    Attributes:
        key: its name.
        dtype: its element type.
        shape: of one step's values.
        allow_missing: whether an example may lack it, as if it had no steps.
    """

    key: bytes
    dtype: DType
    shape: tuple[int, ...]
    allow_missing: bool


def dense_list(key: bytes, dtype: DType, shape: Shape, *, allow_missing: bool) -> DenseList:
    """Return a dense feature list.

    Raises:
        InvalidArgumentError: the shape of a step is not fully defined.
    """
    if shape is None or -1 in shape:
        raise InvalidArgumentError(
            f"feature_list_dense_shapes[{key.decode(errors='replace')!r}] is {shape_text(shape)}, "
            "expected a fully defined shape"
        )
    return DenseList(key, dtype, tuple(shape), allow_missing)


@dataclass(frozen=True, slots=True)
class SequenceColumns:
    """The requested columns of sequence examples, in the order of an op's outputs.

    Sparse columns are pairs of key and element type; ragged ones are triples of key, element type
    of the values and element type of the splits.
    """

    context_sparse: Sequence[tuple[bytes, DType]]
    context_dense: Sequence[DenseColumn]
    list_sparse: Sequence[tuple[bytes, DType]]
    list_dense: Sequence[DenseList]
    context_ragged: Sequence[tuple[bytes, DType, DType]] = ()
    list_ragged: Sequence[tuple[bytes, DType, DType]] = ()

    @property
    def context_keys(self) -> list[bytes]:
        """The keys of all context features."""
        dense = [column.key for column in self.context_dense]
        sparse = [key for key, _ in self.context_sparse]
        return dense + sparse + [key for key, _, _ in self.context_ragged]

    @property
    def list_keys(self) -> list[bytes]:
        """The keys of all feature lists."""
        dense = [column.key for column in self.list_dense]
        sparse = [key for key, _ in self.list_sparse]
        return dense + sparse + [key for key, _, _ in self.list_ragged]


def parse_sequences(
    header_cache: HeaderCache, serialized: Value, names: Value, columns: SequenceColumns
) -> tuple[list[Value], ...]:
    """Parse a sequence example or a vector of them.

    Args:
        header_cache: the headers of contexts that the node has seen.
        serialized: the messages.
        names: the names of the examples in error messages, or an empty vector.
        columns: the requested features.

    Returns:
        The context's sparse indices, values, shapes; its dense values; its ragged values, splits;
        the lists' sparse indices, values, shapes; their dense values and lengths; their ragged
        values, outer splits, inner splits.

    Raises:
        InvalidArgumentError: a message cannot be parsed, or its values have another type or
            number than requested.
    """
    batch = _Batch(header_cache, serialized, names, columns)
    dense_lists = [batch.list_dense(column) for column in columns.list_dense]
    return (
        *_transposed([batch.context_sparse(*column) for column in columns.context_sparse], 3),
        [batch.context_dense(column) for column in columns.context_dense],
        *_transposed([batch.context_ragged(*column) for column in columns.context_ragged], 2),
        *_transposed([batch.list_sparse(*column) for column in columns.list_sparse], 3),
        *_transposed(dense_lists, 2),
        *_transposed([batch.list_ragged(*column) for column in columns.list_ragged], 3),
    )


def _transposed(parts: Sequence[tuple[Value, ...]], count: int) -> tuple[list[Value], ...]:
    return tuple([part[index] for part in parts] for index in range(count))


def _plain_field(content: bytes, offset: int) -> tuple[int, int]:
    """Return start and end of a context or feature lists; zeros if it needs the general parser."""
    if content[offset] not in (FIRST, SECOND):
        return 0, 0
    try:
        return field_at(content, offset, content[offset])
    except (IndexError, DataLossError):  # it is cut off: the general parser raises the error
        return 0, 0


class _Batch:
    """A batch of parsed sequence examples, which returns one column at a time."""

    def __init__(
        self, header_cache: HeaderCache, serialized: Value, names: Value, columns: SequenceColumns
    ) -> None:
        self._is_batch = serialized.ndim == 1
        self._prefixes = error_prefixes(serialized, names, "debug_name")
        headers = header_cache.of(columns.context_keys)
        self._context = Scan(headers, self._prefixes, "SequenceExample")
        self._lists = FeatureListScan(columns.list_keys, self._prefixes)
        for row, content in enumerate(checked(serialized.ravel().tolist())):
            try:
                self._add(row, content)
            except DataLossError as error:
                raise InvalidArgumentError(
                    f"{self._prefixes[row]}Could not parse SequenceExample input: {error.message}"
                ) from error

    def _add(self, row: int, content: bytes) -> None:
        offset, end = 0, len(content)
        while offset < end:
            start, stop = _plain_field(content, offset)
            if not start or stop > end:
                break
            self._part(content[offset] >> 3).add(row, content, start, stop)
            offset = stop
        for field in iterate_fields(content, offset, end):
            if field.number in (1, 2) and check_message(field.wire_type):
                self._part(field.number).add(row, content, field.start, field.end)

    def _part(self, number: int) -> Scan | FeatureListScan:
        """Return the collector of the field with a number: of the context or of feature lists."""
        return self._context if number == 1 else self._lists

    def context_sparse(self, key: bytes, dtype: DType) -> tuple[Value, Value, Value]:
        """Return indices, values and shape of a sparse column of the context."""
        return sparse_values(self._context.column(key, dtype), is_batch=self._is_batch)

    def context_dense(self, column: DenseColumn) -> Value:
        """Return a dense column of the context."""
        rows = self._context.column(column.key, column.dtype)
        return dense_values(column, rows, self._prefixes, is_batch=self._is_batch)

    def context_ragged(self, key: bytes, dtype: DType, split: DType) -> tuple[Value, Value]:
        """Return values and splits of a ragged column of the context.

        For a single example, which has no splits, TensorFlow returns a scalar.
        """
        rows = self._context.column(key, dtype)
        values, row_splits = ragged_values(rows, split, is_batch=self._is_batch)
        return values, row_splits if self._is_batch else np.zeros((), split.as_numpy_dtype)

    def list_sparse(self, key: bytes, dtype: DType) -> tuple[Value, Value, Value]:
        """Return indices, values and shape of a sparse feature list."""
        steps = self._lists.column(key, dtype)
        lengths, counts = steps.lengths, steps.rows.counts
        step_of = np.repeat(np.arange(len(counts)), counts)
        step_index = within_runs(lengths)[step_of]
        example = np.repeat(np.arange(len(lengths)), lengths)[step_of]
        parts = [step_index, within_runs(counts)]
        shape = [int(lengths.max(initial=0)), int(counts.max(initial=0))]
        if self._is_batch:
            parts.insert(0, example)
            shape.insert(0, len(lengths))
        indices = np.stack(parts, axis=1).astype(np.int64)
        return indices, steps.rows.values, np.array(shape, np.int64)

    def list_dense(self, column: DenseList) -> tuple[Value, Value]:
        """Return a dense feature list, padded with zeros, and its length in each example.

        Raises:
            InvalidArgumentError: a required list is missing, or a step has the wrong number of
                values.
        """
        dtype, size = column.dtype, math.prod(column.shape)
        steps = self._lists.column(column.key, dtype)
        lengths = steps.lengths
        self._check_steps(column, steps)
        longest = int(lengths.max(initial=0))
        if int(lengths.min(initial=longest)) == longest:
            table = steps.rows.values
        else:
            zero: Any = b"" if dtype.kind == "s" else 0
            shape = (len(lengths), longest, size)
            check_size(shape, "a padded feature list", itemsize=steps.rows.values.itemsize)
            table = np.full(shape, zero, dtype.as_numpy_dtype)
            table[np.arange(longest) < lengths[:, None]] = steps.rows.values.reshape(-1, size)
        batch = (len(lengths),) if self._is_batch else ()
        dense = table.reshape(*batch, longest, *column.shape)
        return dense, lengths if self._is_batch else lengths[0]

    def _check_steps(self, column: DenseList, steps: Steps) -> None:
        size = math.prod(column.shape)
        mismatches = np.flatnonzero(steps.rows.counts != size)
        if not len(mismatches) and (column.allow_missing or True not in steps.missing):
            return
        name = column.key.decode(errors="replace")
        bad = int(mismatches[0]) if len(mismatches) else len(steps.rows.counts)
        first = 0  # the index of the example's first step
        for length, missing, prefix in zip(
            steps.lengths.tolist(), steps.missing, self._prefixes, strict=True
        ):
            if missing and not column.allow_missing:
                raise InvalidArgumentError(
                    f"{prefix}Feature list '{name}' is required but could not be found. Did you "
                    "mean to include it in feature_list_dense_missing_assumed_empty or "
                    "feature_list_dense_defaults?"
                )
            if bad < first + length:
                raise InvalidArgumentError(
                    f"{prefix}Feature list '{name}', step {bad - first} has "
                    f"{steps.rows.counts[bad]} values, expected the shape "
                    f"{shape_text(column.shape)}"
                )
            first += length

    def list_ragged(self, key: bytes, dtype: DType, split: DType) -> tuple[Value, Value, Value]:
        """Return values, splits of examples into steps, and splits of steps into values."""
        steps = self._lists.column(key, dtype)
        inner = splits(steps.rows.counts, split)
        if self._is_batch:
            outer = splits(steps.lengths, split)
        else:
            outer = np.zeros((), split.as_numpy_dtype)
        return steps.rows.values, outer, inner
