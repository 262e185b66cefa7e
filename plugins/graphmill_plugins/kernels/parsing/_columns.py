"""Columns put together from the values of many examples: dense, sparse, ragged.

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

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.typing import Shape, Value

PARSED_TYPES = (dtypes.float32, dtypes.int64, dtypes.string)


@dataclass(frozen=True, slots=True)
class DenseColumn:
    """A feature of which each example has as many values as its shape says.

    Attributes:
        key: its name.
        dtype: its element type.
        shape: of one example's values; the first size may be unknown, and is then the largest.
        default: what stands for it where it is missing; no values at all if it must be there.
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
        """Number of values of an example, or of one step of the first axis if it is unknown."""
        return math.prod(self.shape[1:] if self.is_variable else self.shape)


def dense_column(key: bytes, dtype: DType, shape: Shape, default: Value) -> DenseColumn:
    """Return a dense column.

    Raises:
        InvalidArgumentError: shape or default value are none for such a column.
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


def dense_values(
    column: DenseColumn, rows: Sequence[Value | None], names: Sequence[str], *, is_batch: bool
) -> Value:
    """Return the tensor of a dense column.

    Raises:
        InvalidArgumentError: an example has no values, or not as many as it must.
    """
    if column.is_variable:
        return _padded_rows(column, rows, names, is_batch)
    size = column.row_size
    found = []
    for values, name in zip(rows, names, strict=True):
        if values is None:
            found.append(_default(column, name))
        elif len(values) != size:
            raise InvalidArgumentError(
                f"{name}Key: {_text(column)}.  Number of {column.dtype.name} values != expected.  "
                f"Values size: {len(values)} but output shape: {shape_text(column.shape)}"
            )
        else:
            found.append(values)
    batch = (len(rows),) if is_batch else ()
    return _joined(found, column.dtype).reshape((*batch, *column.shape))


def _default(column: DenseColumn, name: str) -> Value:
    if column.row_size and not column.default.size:
        raise InvalidArgumentError(
            f"{name}Feature: {_text(column)} (data type: {column.dtype.name}) is required but "
            "could not be found."
        )
    return column.default.ravel()


def _padded_rows(
    column: DenseColumn, rows: Sequence[Value | None], names: Sequence[str], is_batch: bool
) -> Value:
    step = column.row_size
    found = [_empty(column.dtype) if values is None else values for values in rows]
    for values, name in zip(found, names, strict=True):
        if len(values) % step if step else len(values):
            raise InvalidArgumentError(
                f"{name}Key: {_text(column)}.  Number of {column.dtype.name} values is not a "
                f"multiple of stride length. Saw {len(values)} values but output shape is: "
                f"{shape_text(column.shape)}"
            )
    longest = max((len(values) for values in found), default=0)
    blank: Any = b"" if column.dtype is dtypes.string else 0
    padding = column.default.ravel()[0] if column.default.size else blank
    table = np.full((len(found), longest), padding, column.dtype.as_numpy_dtype)
    for place, values in enumerate(found):
        table[place, : len(values)] = values
    steps = longest // step if step else 0
    batch = (len(rows),) if is_batch else ()
    return table.reshape((*batch, steps, *column.shape[1:]))


def sparse_values(
    rows: Sequence[Value | None], dtype: DType, *, is_batch: bool
) -> tuple[Value, Value, Value]:
    """Return indices, values and shape of the sparse tensor of a column."""
    found = [_empty(dtype) if values is None else values for values in rows]
    counts = np.array([len(values) for values in found], np.int64)
    places = within_rows(counts)
    largest = int(counts.max()) if len(counts) else 0
    if not is_batch:
        return places[:, None], _joined(found, dtype), np.array([largest], np.int64)
    indices = np.stack([np.repeat(np.arange(len(counts)), counts), places], axis=1)
    shape = np.array([len(counts), largest], np.int64)
    return indices.astype(np.int64), _joined(found, dtype), shape


def ragged_values(
    rows: Sequence[Value | None], dtype: DType, split_dtype: DType, *, is_batch: bool
) -> tuple[Value, Value]:
    """Return values and row splits of the ragged tensor of a column."""
    found = [_empty(dtype) if values is None else values for values in rows]
    values = _joined(found, dtype)
    if not is_batch:
        return values, np.zeros(0, split_dtype.as_numpy_dtype)
    return values, splits([len(row) for row in found], split_dtype)


def splits(counts: Sequence[int], dtype: DType) -> Value:
    """Return the row splits of rows of these lengths."""
    result = np.zeros(len(counts) + 1, dtype.as_numpy_dtype)
    np.cumsum(counts, out=result[1:])
    return result


def within_rows(counts: Value) -> Value:
    """Return 0, 1, … for each of some rows of these lengths, one row after the other."""
    total = int(counts.sum())
    starts = np.cumsum(counts) - counts
    return np.arange(total, dtype=np.int64) - np.repeat(starts, counts)


def _joined(parts: Sequence[Value], dtype: DType) -> Value:
    if not parts:
        return _empty(dtype)
    joined = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return joined.astype(dtype.as_numpy_dtype, copy=False)


def _empty(dtype: DType) -> Value:
    return np.zeros(0, dtype.as_numpy_dtype)


def _text(column: DenseColumn) -> str:
    return column.key.decode(errors="replace")
