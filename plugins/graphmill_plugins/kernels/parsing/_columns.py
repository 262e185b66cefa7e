"""Assemble columns from the values of many examples: dense, sparse, ragged.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.segment_reduce import within_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._batch_scan import Rows

PARSED_TYPES = (dtypes.float32, dtypes.int64, dtypes.string)


@dataclass(frozen=True, slots=True)
class DenseColumn:
    """A feature with a fixed shape in each example.

    Attributes:
        key: its name.
        dtype: its element type.
        shape: of one example's values; the first size may be unknown, and is then the largest.
        default: the value for examples without the feature; empty if the feature is required.
    """

    key: bytes
    dtype: DType
    shape: tuple[int, ...]
    default: Value

    @property
    def is_variable(self) -> bool:
        """Whether examples may have different numbers of values."""
        return bool(self.shape) and self.shape[0] < 0

    @property
    def row_size(self) -> int:
        """The number of values per example, or per step of the first axis if it is unknown."""
        return math.prod(self.shape[1:] if self.is_variable else self.shape)


def dense_column(key: bytes, dtype: DType, shape: Shape, default: Value) -> DenseColumn:
    """Return a dense column.

    Raises:
        InvalidArgumentError: shape or default value are invalid for such a column.
    """
    name = key.decode(errors="replace")
    if dtype not in PARSED_TYPES:
        raise InvalidArgumentError(f"dense feature {name!r} cannot be of type {dtype.name}")
    if shape is None or -1 in shape[1:]:
        raise InvalidArgumentError(
            f"dense_shapes[{name!r}] is {shape_text(shape)}; only its first size may be unknown"
        )
    column = DenseColumn(key, dtype, tuple(shape), default)
    if default.dtype != dtype.as_numpy_dtype:
        raise InvalidArgumentError(
            f"the default value of {name!r} is of type {default.dtype}, expected {dtype.name}"
        )
    if column.is_variable:
        if default.size != 1:
            raise InvalidArgumentError(
                f"dense_shape[{name!r}] is a variable length shape: {shape_text(shape)}, therefore "
                f"def_value[{name!r}] must contain a single element (the padding element). But its "
                f"shape is: {shape_text(default.shape)}"
            )
    elif default.size and tuple(default.shape) != column.shape:
        raise InvalidArgumentError(
            f"def_value[{name!r}].shape() == {shape_text(default.shape)} is not compatible with "
            f"dense_shapes_[{name!r}] == {shape_text(shape)}"
        )
    return column


def dense_values(column: DenseColumn, rows: Rows, names: Sequence[str], *, is_batch: bool) -> Value:
    """Return the tensor of a dense column.

    Raises:
        InvalidArgumentError: an example has no values, or not as many as it must.
    """
    if column.is_variable:
        return _padded_rows(column, rows, names, is_batch)
    counts, size = rows.counts, column.row_size
    there = slice(None) if rows.missing is None else ~rows.missing
    may_miss = rows.missing is None or not size or column.default.size
    if not may_miss or (counts[there] != size).any():
        _check_counts(column, rows, names)
    values = rows.values
    if rows.missing is not None and rows.missing.any() and size:
        values = np.empty((len(counts), size), column.dtype.as_numpy_dtype)
        values[there] = rows.values.reshape(-1, size)
        values[rows.missing] = column.default.ravel()
    batch = (len(counts),) if is_batch else ()
    return values.reshape((*batch, *column.shape))


def _check_counts(column: DenseColumn, rows: Rows, names: Sequence[str]) -> None:
    size = column.row_size
    missing = [False] * len(names) if rows.missing is None else rows.missing.tolist()
    for count, is_missing, name in zip(rows.counts.tolist(), missing, names, strict=True):
        if is_missing:
            if size and not column.default.size:
                raise InvalidArgumentError(
                    f"{name}Feature: {_text(column)} (data type: {column.dtype.name}) is required "
                    "but could not be found."
                )
        elif count != size:
            raise InvalidArgumentError(
                f"{name}Key: {_text(column)}.  Number of {column.dtype.name} values != expected.  "
                f"Values size: {count} but output shape: {shape_text(column.shape)}"
            )


def _padded_rows(column: DenseColumn, rows: Rows, names: Sequence[str], is_batch: bool) -> Value:
    step, counts = column.row_size, rows.counts
    uneven = counts % step if step else counts
    if uneven.any():
        place = int((uneven != 0).argmax())
        raise InvalidArgumentError(
            f"{names[place]}Key: {_text(column)}.  Number of {column.dtype.name} values is not a "
            f"multiple of stride length. Saw {counts[place]} values but output shape is: "
            f"{shape_text(column.shape)}"
        )
    longest = int(counts.max(initial=0))
    blank: Any = b"" if column.dtype is dtypes.string else 0
    padding = column.default.ravel()[0] if column.default.size else blank
    table = np.full((len(counts), longest), padding, column.dtype.as_numpy_dtype)
    table[np.arange(longest) < counts[:, None]] = rows.values
    steps = longest // step if step else 0
    batch = (len(counts),) if is_batch else ()
    return table.reshape((*batch, steps, *column.shape[1:]))


def sparse_values(rows: Rows, *, is_batch: bool) -> tuple[Value, Value, Value]:
    """Return indices, values and shape of the sparse tensor of a column."""
    counts = rows.counts
    places = within_runs(counts)
    largest = int(counts.max(initial=0))
    if not is_batch:
        return places[:, None], rows.values, np.array([largest], np.int64)
    indices = np.empty((len(places), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(counts)), counts)
    indices[:, 1] = places
    return indices, rows.values, np.array([len(counts), largest], np.int64)


def ragged_values(rows: Rows, split_dtype: DType, *, is_batch: bool) -> tuple[Value, Value]:
    """Return values and row splits of the ragged tensor of a column."""
    if not is_batch:
        return rows.values, np.zeros(0, split_dtype.as_numpy_dtype)
    return rows.values, splits(rows.counts, split_dtype)


def splits(counts: Sequence[int] | Value, dtype: DType) -> Value:
    """Return the row splits of rows of these lengths."""
    result = np.zeros(len(counts) + 1, dtype.as_numpy_dtype)
    np.cumsum(counts, out=result[1:])
    return result


def _text(column: DenseColumn) -> str:
    return column.key.decode(errors="replace")
