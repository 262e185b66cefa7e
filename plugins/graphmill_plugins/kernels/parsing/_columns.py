"""Build dense, sparse and ragged columns from the feature values of a batch of examples.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.segment_reduce import within_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.parsing._batch_scan import FeatureRows

PARSED_TYPES = (dtypes.float32, dtypes.int64, dtypes.string)
_MAX_CACHED: Final = 1 << 13
"""The largest number of values whose places in sparse tensors are kept, 128 KiB of indices."""


@dataclass(frozen=True, slots=True)
class DenseColumn:
    """A feature with a fixed shape in each example.

    Attributes:
        key: its name.
        dtype: its element type.
        shape: of one example's values; an unknown first size (-1) is that of the longest example.
        default: the value for examples without the feature; empty if the feature is required.
    """

    key: bytes
    dtype: DType
    shape: tuple[int, ...]
    default: Value

    @property
    def is_variable(self) -> bool:
        """Whether the number of values may differ between examples."""
        return bool(self.shape) and self.shape[0] < 0

    @property
    def row_size(self) -> int:
        """The number of values per example, or per step along the first axis if it is variable."""
        return math.prod(self.shape[1:] if self.is_variable else self.shape)


def dense_column(key: bytes, dtype: DType, shape: Shape, default: Value) -> DenseColumn:
    """Return a dense column.

    Raises:
        InvalidArgumentError: the type, shape or default value is invalid.
    """
    name = key.decode(errors="replace")
    if dtype not in PARSED_TYPES:
        raise InvalidArgumentError(
            f"dense feature {name!r} must be float32, int64 or string, got {dtype.name}"
        )
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


def dense_values(
    column: DenseColumn, rows: FeatureRows, prefixes: Sequence[str], *, is_batch: bool
) -> Value:
    """Return the tensor of a dense column.

    Raises:
        InvalidArgumentError: a required feature is missing, or has the wrong number of values.
    """
    if column.is_variable:
        return _padded_rows(column, rows, prefixes, is_batch)
    counts, size = rows.counts, column.row_size
    if rows.count_of_each == size and rows.missing is None:
        return rows.values.reshape((len(counts), *column.shape) if is_batch else column.shape)
    present = slice(None) if rows.missing is None else ~rows.missing
    is_complete = rows.missing is None or not size or column.default.size
    if not is_complete or (counts[present] != size).any():
        _check_counts(column, rows, prefixes)
    values = rows.values
    if rows.missing is not None and rows.missing.any() and size:
        values = _empty(column, len(counts), size)
        values[present] = rows.values.reshape(-1, size)
        values[rows.missing] = column.default.ravel()
    batch = (len(counts),) if is_batch else ()
    return values.reshape((*batch, *column.shape))


def _check_counts(column: DenseColumn, rows: FeatureRows, prefixes: Sequence[str]) -> None:
    size = column.row_size
    missing = [False] * len(prefixes) if rows.missing is None else rows.missing.tolist()
    for count, is_missing, prefix in zip(rows.counts.tolist(), missing, prefixes, strict=True):
        if is_missing:
            if size and not column.default.size:
                raise InvalidArgumentError(
                    f"{prefix}Feature: {_name(column)} (data type: {column.dtype.name}) is "
                    "required but could not be found."
                )
        elif count != size:
            raise InvalidArgumentError(
                f"{prefix}Key: {_name(column)}.  Number of {column.dtype.name} values != "
                f"expected.  Values size: {count} but output shape: {shape_text(column.shape)}"
            )


def _padded_rows(
    column: DenseColumn, rows: FeatureRows, prefixes: Sequence[str], is_batch: bool
) -> Value:
    stride, counts = column.row_size, rows.counts
    uneven = counts % stride if stride else counts
    if uneven.any():
        row = int((uneven != 0).argmax())
        raise InvalidArgumentError(
            f"{prefixes[row]}Key: {_name(column)}.  Number of {column.dtype.name} values is not a "
            f"multiple of stride length. Saw {counts[row]} values but output shape is: "
            f"{shape_text(column.shape)}"
        )
    longest = int(counts.max(initial=0))
    zero: Any = b"" if column.dtype is dtypes.string else 0
    padding = column.default.ravel()[0] if column.default.size else zero
    table = _empty(column, len(counts), longest)
    table[...] = padding
    table[np.arange(longest) < counts[:, None]] = rows.values
    steps = longest // stride if stride else 0
    batch = (len(counts),) if is_batch else ()
    return table.reshape((*batch, steps, *column.shape[1:]))


def _empty(column: DenseColumn, count: int, size: int) -> Value:
    """Return an uninitialized table with `size` values of a column for each example.

    Raises:
        ResourceExhaustedError: one large example or default makes it larger than the budget.
    """
    dtype = column.dtype.as_numpy_dtype
    check_size((count, size), f"the dense feature {_name(column)}", itemsize=dtype.itemsize)
    return np.empty((count, size), dtype)


def sparse_values(rows: FeatureRows, *, is_batch: bool) -> tuple[Value, Value, Value]:
    """Return indices, values and shape of the sparse tensor of a column."""
    counts = rows.counts
    positions = within_runs(counts)
    largest = int(counts.max(initial=0))
    if not is_batch:
        return positions[:, None], rows.values, np.array([largest], np.int64)
    indices = np.empty((len(positions), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(counts)), counts)
    indices[:, 1] = positions
    return indices, rows.values, np.array([len(counts), largest], np.int64)


def sparse_columns(
    rows: Sequence[FeatureRows], *, is_batch: bool
) -> list[tuple[Value, Value, Value]]:
    """Return `sparse_values` of several columns; NumPy is called once for all of them."""
    if not (rows and is_batch and len(rows[0].counts)):
        return [sparse_values(column, is_batch=is_batch) for column in rows]
    size = len(rows[0].counts)
    each = [n for column in rows if (n := column.count_of_each) is not None]
    if len(each) == len(rows) and size * sum(each) <= _MAX_CACHED:
        parts = _even_places(size, tuple(each))
    else:
        parts = _places(np.stack([column.counts for column in rows]))
    return [
        (indices, column.values, shape)
        for column, (indices, shape) in zip(rows, parts, strict=True)
    ]


def _places(counts: Value) -> list[tuple[Value, Value]]:
    """Return indices and shape of sparse tensors from counts, of shape (columns, examples)."""
    columns, size = counts.shape
    flat = counts.ravel()
    indices = np.empty((int(flat.sum()), 2), np.int64)
    indices[:, 0] = np.repeat(np.tile(np.arange(size), columns), flat)
    indices[:, 1] = within_runs(flat)
    shapes = np.empty((columns, 2), np.int64)
    shapes[:, 0] = size
    shapes[:, 1] = counts.max(axis=1)
    ends = np.cumsum(counts.sum(axis=1)).tolist()
    starts = [0, *ends[:-1]]
    return [
        (indices[start:end], shape) for start, end, shape in zip(starts, ends, shapes, strict=True)
    ]


@lru_cache(maxsize=16)  # batches of a data set have the same layout
def _even_places(size: int, counts: tuple[int, ...]) -> list[tuple[Value, Value]]:
    """Return `_places` of columns with the same count in each example, as read-only arrays."""
    places = _places(np.repeat(np.array(counts, np.int64)[:, None], size, axis=1))
    for indices, shape in places:
        indices.flags.writeable = shape.flags.writeable = False
    return places


def ragged_values(rows: FeatureRows, split_dtype: DType, *, is_batch: bool) -> tuple[Value, Value]:
    """Return values and row splits of the ragged tensor of a column."""
    if not is_batch:
        return rows.values, np.zeros(0, split_dtype.as_numpy_dtype)
    return rows.values, splits(rows.counts, split_dtype)


def splits(counts: Sequence[int] | Value, dtype: DType) -> Value:
    """Return the row splits of rows with these lengths."""
    result = np.zeros(len(counts) + 1, dtype.as_numpy_dtype)
    np.cumsum(counts, out=result[1:])
    return result


def _name(column: DenseColumn) -> str:
    return column.key.decode(errors="replace")
