"""RaggedRange, RaggedGather, conversions to sparse tensors, and RaggedFillEmptyRows.

Semantics: tensorflow/core/kernels/ragged_range_op.cc, ragged_gather_op.cc,
ragged_tensor_to_sparse_kernel.cc, ragged_fill_empty_rows_op.cc.
"""

from __future__ import annotations

import math
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size, object_array, shape_text
from graphmill_plugins.kernels.ragged._ragged import check_nested, spans, splits_of
from graphmill_plugins.kernels.sparse.layout import fill_empty_rows_grad, positions_with_empty_rows

if TYPE_CHECKING:
    from graphmill.spi import Value

_RANGE_TYPES = {"T": (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)}
_MAX_RANGE_SIZE = 2**40
_FEW: Final = 32
"""The number of rows up to which Python's integers are faster than NumPy."""
_FEW_ELEMENTS: Final = 512
"""The same for elements of a result."""


_SAFE = 2**61  # differences of smaller integers do not overflow


def _lengths(starts: Any, limits: Any, deltas: Any) -> Any:
    """Return the length of each range, exact even for the largest integers."""
    if not deltas.all():
        raise InvalidArgumentError("Requires delta != 0")
    parts = (starts, limits, deltas)
    if starts.dtype.kind == "f" and any(np.isnan(numbers).any() for numbers in parts):
        raise InvalidArgumentError("Requires ((limit - start) / delta) to be a number, got nan")
    is_exact = starts.dtype.kind == "i"
    wide: Any = np.int64 if is_exact else np.float64
    if is_exact and any(x.max(initial=0) > _SAFE or x.min(initial=0) < -_SAFE for x in parts):
        wide = object  # Python integers
    starts, limits, deltas = (each.astype(wide) for each in parts)
    distances, steps = np.abs(limits - starts), np.abs(deltas)
    sizes = -(-distances // steps) if is_exact else np.ceil(distances / steps)
    sizes = np.where(((deltas > 0) == (starts < limits)) & (starts != limits), sizes, 0)
    if not (sizes < _MAX_RANGE_SIZE).all():
        first = int(np.argmin(sizes < _MAX_RANGE_SIZE))
        raise InvalidArgumentError(
            f"the range from {starts[first]} to {limits[first]} by {deltas[first]} has "
            f"{sizes[first]} elements; expected fewer than {_MAX_RANGE_SIZE}"
        )
    return sizes.astype(np.int64)


@kernel("RaggedRange", types=_RANGE_TYPES, host=True)
def ragged_range(
    starts: Value, limits: Value, deltas: Value, Tsplits: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return the rows start, start + delta, … below limit, with their splits.

    Raises:
        InvalidArgumentError: inputs are neither scalars nor vectors of one length, a delta is 0, or
            the splits do not fit in their type.
        ResourceExhaustedError: the result has too many elements.
    """
    parts = {"starts": starts, "limits": limits, "deltas": deltas}
    for name, value in parts.items():
        if value.ndim > 1:
            raise InvalidArgumentError(f"{name} must be a scalar or vector, got rank {value.ndim}")
    sizes = {value.shape[0] for value in parts.values() if value.ndim}
    if len(sizes) > 1:
        raise InvalidArgumentError(
            f"starts, limits, and deltas must have the same shape, got lengths {sorted(sizes)}"
        )
    count = sizes.pop() if sizes else 1
    if count <= _FEW and starts.dtype.kind == "i":
        few = _few_ranges(starts, limits, deltas, count)
        if few is not None:
            rows_of_few, elements = few
            return np.array(rows_of_few, Tsplits), np.array(elements, starts.dtype)
    first, last, step = (np.broadcast_to(value, (count,)) for value in parts.values())
    lengths = _lengths(first, last, step)
    fits = lengths.sum(dtype=np.float64) < _MAX_RANGE_SIZE  # a sum of integers may wrap around
    total = int(lengths.sum()) if fits else sum(lengths.tolist())
    if total > np.iinfo(Tsplits).max:
        raise InvalidArgumentError(
            f"the ranges have {total} elements, which {Tsplits} splits cannot count"
        )
    if total >= _MAX_RANGE_SIZE:
        raise ResourceExhaustedError(f"the ranges have {total} elements")
    check_size((total,), "the ranges", itemsize=first.dtype.itemsize)
    return splits_of(lengths, Tsplits), _filled(first, step, lengths)


def _few_ranges(
    starts: Value, limits: Value, deltas: Value, count: int
) -> tuple[list[int], list[int]] | None:
    """Return the splits and elements of integer ranges; None if they have many, or a delta is 0."""
    bounds = (
        part.tolist() if part.ndim else [part.item()] * count for part in (starts, limits, deltas)
    )
    try:
        ranges = list(map(range, *bounds))
        splits = list(accumulate(map(len, ranges), initial=0))
    except (ValueError, OverflowError):  # a delta is 0, or a range longer than an index can be
        return None
    if splits[-1] > _FEW_ELEMENTS:
        return None
    return splits, list(chain.from_iterable(ranges))


def _filled(first: Any, step: Any, lengths: Any) -> Any:
    """Return the concatenated ranges; floats accumulate the delta, as in TensorFlow."""
    if first.dtype.kind == "i":
        # `before * step` may wrap around; the sum below then wraps around back.
        before = (np.cumsum(lengths) - lengths).astype(first.dtype)
        out: Any = np.arange(int(lengths.sum())).astype(first.dtype, copy=False)
        if (step != 1).any():
            out *= np.repeat(step, lengths)
        out += np.repeat(first - before * step, lengths)
        return out
    rows = []
    for start, delta, length in cancellable(zip(first, step, lengths.tolist(), strict=True)):
        row = np.full(length, delta, first.dtype)
        row[:1] = start
        rows.append(np.add.accumulate(row, dtype=first.dtype))
    return np.concatenate(rows) if rows else first[:0]


@kernel("RaggedGather", host=True)
def ragged_gather(
    params_nested_splits: list[Value],
    params_dense_values: Value,
    indices: Value,
    Tsplits: np.dtype[Any],
    OUTPUT_RAGGED_RANK: int,
) -> tuple[list[Value], Value]:
    """Return the rows of a ragged tensor at indices of any shape.

    Raises:
        InvalidArgumentError: an index is out of range, or the output has another ragged rank.
    """
    check_nested(params_nested_splits, params_dense_values)
    ragged_rank = len(params_nested_splits) + indices.ndim - 1
    if ragged_rank != OUTPUT_RAGGED_RANK:
        raise InvalidArgumentError(
            f"OUTPUT_RAGGED_RANK must be {ragged_rank} for indices of rank {indices.ndim}, got "
            f"{OUTPUT_RAGGED_RANK}"
        )
    rows = len(params_nested_splits[0]) - 1
    flat = indices.reshape(-1).astype(np.int64)
    outside = np.flatnonzero((flat < 0) | (flat >= rows))
    if outside.size:
        where = ",".join(map(str, np.unravel_index(outside[0], indices.shape)))
        raise InvalidArgumentError(f"indices[{where}] = {flat[outside[0]]} is not in [0, {rows})")
    check_size((math.prod(indices.shape[:-1]) + 1,), "the row splits", itemsize=8)
    out = [
        (np.arange(math.prod(indices.shape[:axis]) + 1) * indices.shape[axis]).astype(Tsplits)
        for axis in range(1, indices.ndim)
    ]
    for splits in params_nested_splits:
        lengths = splits[flat + 1] - splits[flat]
        out.append(splits_of(lengths, Tsplits))
        flat = spans(splits[flat], lengths)
    inner = params_dense_values.shape[1:]
    check_size((len(flat), *inner), itemsize=params_dense_values.itemsize)
    # A scalar index selects one row, so its outermost splits are dropped.
    return (out if indices.ndim else out[1:]), params_dense_values[flat]


@kernel("RaggedTensorToSparse", host=True)
def ragged_tensor_to_sparse(
    rt_nested_splits: list[Value], rt_dense_values: Value
) -> tuple[Value, Value, Value]:
    """Return a ragged tensor as a sparse one, with an element for each value."""
    check_nested(rt_nested_splits, rt_dense_values)
    count = rt_dense_values.shape[0]
    columns: list[Any] = []
    sizes = [len(rt_nested_splits[0]) - 1]
    for level, splits in enumerate(rt_nested_splits):
        lengths = splits[1:] - splits[:-1]
        sizes.append(int(lengths.max(initial=0)))
        row = np.repeat(np.arange(len(lengths)), lengths)
        if level == 0:
            columns.append(row)
        columns = [column[row] if level else column for column in columns]
        columns.append(np.arange(len(row)) - splits[row])
    inner = rt_dense_values.shape[1:]
    outer = np.empty((count, len(columns)), np.int64)
    for axis, column in enumerate(columns):
        outer[:, axis] = column
    if not inner:
        return outer, rt_dense_values, np.array(sizes, np.int64)
    within = np.stack(np.unravel_index(np.arange(math.prod(inner)), inner), axis=1)
    indices = np.concatenate(
        [np.repeat(outer, len(within), axis=0), np.tile(within, (count, 1))], axis=1
    ).astype(np.int64)
    return indices, rt_dense_values.reshape(-1), np.array([*sizes, *inner], np.int64)


@kernel("RaggedFillEmptyRows", host=True)
def ragged_fill_empty_rows(
    value_rowids: Value, values: Value, nrows: Value, default_value: Value
) -> tuple[Value, Value, Value, Value]:
    """Insert the default value into each empty row.

    Also returns a mask of the empty rows, and the new position of each input value.
    """
    default = object_array(default_value) if values.dtype.kind == "O" else default_value
    if np.ndim(nrows) or np.ndim(default):
        raise InvalidArgumentError(
            f"nrows and default_value must be scalars, saw: {shape_text(np.shape(nrows))} and "
            f"{shape_text(np.shape(default))}"
        )
    if value_rowids.ndim != 1 or values.shape != value_rowids.shape:
        raise InvalidArgumentError(
            "value_rowids and values must be vectors of one length, saw: "
            f"{shape_text(value_rowids.shape)} and {shape_text(values.shape)}"
        )
    count = int(nrows)
    if count < 0 or (not count and len(values)):
        raise InvalidArgumentError(f"Received value_rowids for {count} rows: must be empty")
    outside = (value_rowids < 0) | (value_rowids >= count)
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"value_rowids({first}) is invalid: {value_rowids[first]} is not in [0, {count})"
        )
    check_size((count,), "the rows", itemsize=48 + 2 * values.itemsize)  # and lists of indices
    empty = np.ones(count, np.bool_)
    empty[value_rowids] = False
    moved, added, filled = positions_with_empty_rows(value_rowids, empty)
    if filled is None:
        return value_rowids, values, empty, moved
    rows = np.empty(len(values) + len(added), value_rowids.dtype)
    rows[moved], rows[filled] = value_rowids, added
    all_values = np.full(len(rows), default, values.dtype)
    all_values[moved] = values
    return rows, all_values, empty, moved


@kernel("RaggedFillEmptyRowsGrad", host=True)
def ragged_fill_empty_rows_grad(
    reverse_index_map: Value, grad_values: Value
) -> tuple[Value, Value]:
    """Return the gradients of the values and of the default."""
    return fill_empty_rows_grad(reverse_index_map, grad_values)
