"""SparseCross and SparseCrossV2: cross the features of several columns row by row.

Semantics: tensorflow/core/kernels/sparse_cross_op.cc. Hashes are FarmHash's Fingerprint64,
combined by `FingerprintCat64` of tensorflow/core/platform/fingerprint.h.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import chain, product
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import check_size, object_array, shape_text
from graphmill_plugins.kernels.segment_reduce import run_lengths, run_starts, within_runs
from graphmill_plugins.kernels.sparse._sparse import are_among
from graphmill_plugins.kernels.string._fingerprint import MAX_SCALAR_HASHES, fingerprints
from graphmill_plugins.kernels.string.hash import fingerprint64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import Value

_MASK = (1 << 64) - 1
_MULTIPLIER, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(47)
_MAX_INT64 = (1 << 63) - 1
_FEW: Final = 32
"""The number of rows of a column up to which Python is faster than NumPy, and of combinations."""


class Column(NamedTuple):
    """The features of one input, grouped by row; rows without features are omitted.

    Attributes:
        height: the number of rows. That of a sparse input may be arbitrarily large.
        rows: the indices of the rows that have features, ascending.
        starts, counts: for each of these rows, the position of its first feature, and the number
            of its features.
        features: all features, a vector of strings or integers.
    """

    height: int
    rows: Value
    starts: Value
    counts: Value
    features: Value


class Crossed(NamedTuple):
    """The results of a cross.

    Attributes:
        height: the number of rows.
        rows: the indices of the rows with at least one combination, ascending.
        counts: the number of combinations in each of these rows.
        picks: for each column, the position of the feature in each combination.
    """

    height: int
    rows: Value
    counts: Value
    picks: list[Value]


def joined_hashes(first: Value, second: Value) -> Value:
    """Combine two vectors of 64-bit hashes, as TensorFlow's `FingerprintCat64`."""
    mixed = second * _MULTIPLIER
    mixed = (mixed ^ mixed >> _SHIFT) * _MULTIPLIER
    result = (first ^ _MULTIPLIER ^ mixed) * _MULTIPLIER
    result = (result ^ result >> _SHIFT) * _MULTIPLIER
    return result ^ result >> _SHIFT


def _hashes(features: Value) -> Value:
    """Return the hash of each string; integers are their own hashes."""
    if features.dtype.kind != "O":
        return features.astype(np.uint64)
    items: list[bytes] = features.tolist()
    if len(items) > MAX_SCALAR_HASHES:
        return fingerprints(items, fingerprint64)
    return np.fromiter(map(fingerprint64, items), np.uint64, len(items))


def crossed_hashes(
    columns: Sequence[Column], picks: Sequence[Value], start: int, num_buckets: int
) -> Value:
    """Return the buckets of crossed features, hashed one after the other from `start`.

    If `num_buckets` is 0, return non-negative hashes.
    """
    combined = np.full(len(picks[0]), start & _MASK, np.uint64)
    for column, chosen in zip(columns, picks, strict=True):
        combined = joined_hashes(combined, _hashes(column.features)[chosen])
    return (combined % np.uint64(num_buckets or _MAX_INT64)).astype(np.int64)


def crossed_texts(columns: Sequence[Column], picks: Sequence[Value], separator: bytes) -> Value:
    """Return crossed features as strings joined by a separator."""
    texts = [
        [feature if isinstance(feature, bytes) else b"%d" % feature for feature in chosen.tolist()]
        for chosen in (
            column.features[indices] for column, indices in zip(columns, picks, strict=True)
        )
    ]
    return string_array(list(map(separator.join, zip(*texts, strict=True))))


def sparse_column(indices: Value, values: Value, shape: Value, name: str) -> Column:
    """Return the features of each row of a sparse matrix, in the order of its elements.

    Raises:
        InvalidArgumentError: it is not a matrix, or its parts do not fit.
    """
    if indices.ndim != 2 or indices.shape[1] != 2:
        raise InvalidArgumentError(
            f"Expected D2 of the indices of {name} to be 2, got shape {shape_text(indices.shape)}"
        )
    if values.ndim != 1 or len(values) != len(indices):
        raise InvalidArgumentError(
            f"Expected the values of {name} to be a vector of {len(indices)} elements, got shape "
            f"{shape_text(values.shape)}"
        )
    if shape.shape != (2,):
        raise InvalidArgumentError(
            f"Expected the shape of {name} to have 2 elements, got {shape_text(shape.shape)}"
        )
    height = int(shape[0])
    rows = indices[:, 0]
    strays = (rows < 0) | (rows >= height)
    strays[1:] |= rows[1:] < rows[:-1]
    if strays.any():
        # TensorFlow iterates over the rows once and stops at the first such element.
        rows = rows[: int(strays.argmax())]
    starts = run_starts(rows)
    return Column(height, rows[starts], starts, run_lengths(starts, len(rows)), values)


def dense_column(tensor: Value, position: int) -> Column:
    """Return the features of each row of a matrix.

    Raises:
        InvalidArgumentError: the tensor is not a matrix.
    """
    if tensor.ndim != 2:
        raise InvalidArgumentError(
            f"Dense inputs should be a matrix but received shape {shape_text(tensor.shape)} at "
            f"position {position}"
        )
    height, width = tensor.shape
    rows = np.arange(height if width else 0)
    return Column(height, rows, rows * width, np.full(len(rows), width), tensor.reshape(-1))


def crossed(columns: Sequence[Column]) -> Crossed:
    """Return the results for rows that have features in all columns.

    Raises:
        InvalidArgumentError: the columns have different numbers of rows.
    """
    heights = [column.height for column in columns]
    if len(set(heights)) > 1:
        raise InvalidArgumentError(f"Expected batch size {heights[0]} in all inputs, got {heights}")
    if max(len(column.rows) for column in columns) <= _FEW:
        few = _crossed_few(columns)
        if few is not None:
            return few
    rows = columns[0].rows
    for column in columns[1:]:
        rows = rows[are_among(rows, column.rows)]
    chosen = [np.searchsorted(column.rows, rows) for column in columns]
    counts = [column.counts[index] for column, index in zip(columns, chosen, strict=True)]
    totals = np.ones(len(rows), np.int64)
    estimate = np.ones(len(rows))  # float64, which does not wrap around
    for count in counts:
        totals, estimate = totals * count, estimate * count
    check_size((int(estimate.sum()),), "the crossed features", itemsize=totals.itemsize)
    owner = np.repeat(np.arange(len(rows)), totals)
    combination = np.arange(len(owner)) - np.repeat(np.cumsum(totals) - totals, totals)
    picks: list[Value] = []
    for column, index, count in reversed(list(zip(columns, chosen, counts, strict=True))):
        combination, within = np.divmod(combination, count[owner])  # the last column varies fastest
        picks.insert(0, column.starts[index][owner] + within)
    return Crossed(heights[0], rows, totals, picks)


def _crossed_few(columns: Sequence[Column]) -> Crossed | None:
    """Return the results for columns of few rows; None if there are many combinations."""
    spans = [
        dict(
            zip(
                column.rows.tolist(),
                zip(column.starts.tolist(), column.counts.tolist(), strict=True),
                strict=True,
            )
        )
        for column in columns
    ]
    rows = [row for row in spans[0] if all(row in others for others in spans[1:])]
    counts = [math.prod(of[row][1] for of in spans) for row in rows]
    if sum(counts) > _FEW:
        return None
    chosen = chain.from_iterable(
        product(*(range(start, start + count) for start, count in (of[row] for of in spans)))
        for row in rows
    )
    picks = np.fromiter(chain.from_iterable(chosen), np.int64).reshape(-1, len(columns))
    as_integers = partial(np.array, dtype=np.int64)
    return Crossed(columns[0].height, as_integers(rows), as_integers(counts), list(picks.T))


def combine_columns(
    indices: list[Value], values: list[Value], shapes: list[Value], dense: list[Value]
) -> list[Column]:
    """Return the columns of sparse and dense inputs.

    Raises:
        InvalidArgumentError: there is none, or the parts of an input do not match.
    """
    columns = [
        sparse_column(*parts, f"input {index}")
        for index, parts in enumerate(zip(indices, values, shapes, strict=True))
    ]
    columns += [dense_column(tensor, index) for index, tensor in enumerate(dense)]
    if not columns:
        raise InvalidArgumentError("there is nothing to cross: pass at least one input")
    return columns


def cross_rows(
    columns: list[Column], combine: Callable[[list[Column], list[Value]], Value]
) -> tuple[Value, Value, Value]:
    """Return the sparse matrix of the combinations that `combine` computes from columns."""
    height, rows, counts, picks = crossed(columns)
    indices = np.empty((len(picks[0]), 2), np.int64)
    indices[:, 0] = np.repeat(rows, counts)
    indices[:, 1] = within_runs(counts)
    out_shape = np.array([height, counts.max(initial=0)], np.int64)
    return indices, combine(columns, picks), out_shape


@kernel("SparseCross", host=True)
def sparse_cross(
    indices: list[Value],
    values: list[Value],
    shapes: list[Value],
    dense_inputs: list[Value],
    num_buckets: int,
    hash_key: int,
    out_type: np.dtype[Any],
    internal_type: np.dtype[Any],
) -> tuple[Value, Value, Value]:
    """Cross columns, and return joined strings, or hashes that start with `hash_key`.

    As in TensorFlow, `out_type` selects which; the attr `hashed_output` has no effect.

    Raises:
        InvalidArgumentError: an input has integers but the internal type is string, or the parts
            of a sparse input do not match.
    """
    if internal_type.kind == "O" and any(part.dtype.kind != "O" for part in values + dense_inputs):
        raise InvalidArgumentError(
            "Input values should be of internal type string but received int64; numbers are "
            "crossed with internal_type=DT_INT64"
        )
    columns = combine_columns(indices, values, shapes, dense_inputs)
    if out_type.kind == "O":
        return cross_rows(columns, partial(crossed_texts, separator=b"_X_"))
    return cross_rows(columns, partial(crossed_hashes, start=hash_key, num_buckets=num_buckets))


@kernel("SparseCrossV2", host=True)
def sparse_cross_v2(
    indices: list[Value],
    values: list[Value],
    shapes: list[Value],
    dense_inputs: list[Value],
    sep: Value,
) -> tuple[Value, Value, Value]:
    """Cross columns, and return strings joined by the separator."""
    columns = combine_columns(indices, values, shapes, dense_inputs)
    if np.ndim(sep):
        raise InvalidArgumentError(f"sep must be a scalar, got shape {shape_text(np.shape(sep))}")
    separator: bytes = object_array(sep)[()]
    return cross_rows(columns, partial(crossed_texts, separator=separator))
