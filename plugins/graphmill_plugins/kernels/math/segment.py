"""Segment reductions on NumPy: rows of `data` that share a segment id are combined.

Rows are sorted by id, and each run of equal ids is combined. Narrow floats are combined in
float32. Semantics: tensorflow/core/kernels/segment_reduction_ops_impl.h.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import KernelDef, KernelTable, kernel
from graphmill_plugins.kernels._support import (
    POINTER_SIZE,
    accumulator,
    check_size,
    is_narrow,
    scalar_int,
    shape_text,
)
from graphmill_plugins.kernels.math.segment_ops import (
    COMBINED,
    SCALES,
    check_vectors,
    segment_kernels,
    sparse_segment_kernels,
)
from graphmill_plugins.kernels.segment_reduce import (
    are_few,
    are_short,
    are_wide,
    combine_in_rounds,
    combine_runs,
    run_starts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

    Fill = Callable[[np.dtype[Any]], Any]


def _zero(dtype: np.dtype[Any]) -> Any:
    return dtype.type(0)


def _lowest(dtype: np.dtype[Any]) -> Any:
    return dtypes.as_dtype(dtype).min


def _highest(dtype: np.dtype[Any]) -> Any:
    return dtypes.as_dtype(dtype).max


def _one(dtype: np.dtype[Any]) -> Any:
    return dtype.type(1)


def combine_sorted(
    ufunc: np.ufunc, data: Value, ids: Value, count: int, fill: Any, order: Value | None = None
) -> Value:
    """Combine rows of `data` with ascending ids into `count` rows.

    Segments without rows hold `fill`. The result has the type of `data`, but narrow floats are
    returned in float32, for the caller to round. `order` gives the row of `data` for each id; by
    default rows are in the order of the ids.
    """
    dtype = accumulator(data.dtype)
    shape = (count, *data.shape[1:])
    if not ids.size:
        return np.full(shape, fill, dtype)
    starts = run_starts(ids)
    is_plain = data.ndim > 1 and not is_narrow(data.dtype)
    uses_rounds = is_plain and not are_few(starts, data) and are_short(starts, ids.size)
    if not uses_rounds and not are_wide(data):
        rows = data if order is None else data.take(order, axis=0)
        combined = ufunc.reduceat(rows, starts, axis=0, dtype=dtype)
        if starts.size == count:  # no segment is empty
            return combined
        result = np.full(shape, fill, dtype)
        result[ids[starts]] = combined
        return result
    result = np.full(shape, fill, dtype)
    if uses_rounds:
        result[ids[starts]] = data.take(starts if order is None else order[starts], axis=0)
        combine_in_rounds(ufunc, result, ids, starts, data, order, position=1)
    else:
        combine_runs(ufunc, result, ids, starts, data, order)
    return result


def combine(ufunc: np.ufunc, data: Value, ids: Value, count: int, fill: Any) -> Value:
    """Combine rows of `data` by ids in any order; see `combine_sorted`."""
    if data.ndim == 1 and not is_narrow(data.dtype):
        result = np.full(count, fill, data.dtype)
        ufunc.at(result, ids, data)  # has a fast path for one dimension
        return result
    order = np.argsort(ids, kind="stable")
    return combine_sorted(ufunc, data, ids[order], count, fill, order)


def _check_sorted(data: Value, ids: Value) -> None:
    """Check the ids of an op that requires them sorted.

    Raises:
        InvalidArgumentError: there is not one id for each row, or ids are negative or descend.
    """
    if data.ndim == 0 or ids.ndim != 1 or ids.shape[0] != data.shape[0]:
        raise InvalidArgumentError(
            "segment_ids should be a vector with one id for each row of data, got shapes "
            f"{shape_text(ids.shape)} and {shape_text(data.shape)}"
        )
    if ids.size and ids[0] < 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    if (ids[1:] < ids[:-1]).any():
        raise InvalidArgumentError("segment ids are not increasing")


def _count_of(data: Value, ids: Value) -> int:
    """Return the number of segments of sorted ids, which determines the size of the output."""
    count = int(ids[-1]) + 1 if ids.size else 0
    check_size((count, *data.shape[1:]), itemsize=data.dtype.itemsize)
    return count


def _sorted_segments(ufunc: np.ufunc, fill: Fill) -> Callable[..., Value]:
    def segments(data: Value, ids: Value) -> Value:
        _check_sorted(data, ids)
        count = _count_of(data, ids)
        rows = combine_sorted(ufunc, data, ids, count, fill(data.dtype))
        return rows.astype(data.dtype, copy=False)

    return segments


def _sorted_segments_v2(ufunc: np.ufunc, fill: Fill) -> Callable[..., Value]:
    def segments(data: Value, ids: Value, count: int) -> Value:
        _check_sorted(data, ids)
        check_size((count, *data.shape[1:]), itemsize=data.dtype.itemsize)
        inside = ids < count  # rows of larger ids are dropped, as in XLA
        if not inside.all():
            data, ids = data[inside], ids[inside]
        rows = combine_sorted(ufunc, data, ids, count, fill(data.dtype))
        if _is_float_extremum(ufunc, data):
            rows = ufunc(rows, rows.dtype.type(fill(data.dtype)))  # replaces infinities
        return rows.astype(data.dtype, copy=False)

    return segments


def _unsorted_segments(ufunc: np.ufunc, fill: Fill) -> Callable[..., Value]:
    def segments(data: Value, ids: Value, count: int) -> Value:
        flat, inner = ids.reshape(-1), data.shape[ids.ndim :]
        check_size((count, *inner), itemsize=data.dtype.itemsize)
        if not data.size:  # TensorFlow does not check the ids then
            return np.full((count, *inner), fill(data.dtype), data.dtype)
        _check_below(flat, ids.shape, count)
        rows = data.reshape((flat.size, *inner))
        selected = flat >= 0  # rows with negative ids are dropped
        if not selected.all():
            flat, rows = flat[selected], rows[selected]
        combined = _unsorted_extrema if _is_float_extremum(ufunc, data) else combine
        result = combined(ufunc, rows, flat, count, fill(data.dtype))
        return result.astype(data.dtype, copy=False)

    return segments


def _is_float_extremum(ufunc: np.ufunc, data: Value) -> bool:
    return ufunc in (np.maximum, np.minimum) and data.dtype.kind not in "iu"


def _unsorted_extrema(ufunc: np.ufunc, data: Value, ids: Value, count: int, end: Any) -> Value:
    """Compute minima or maxima of float rows with TensorFlow's results for NaN and infinity.

    TensorFlow starts with `end`, the limit of the type, which hides infinities. It replaces a
    result of NaN by the next row. So only rows after the last NaN count; if the NaN is in the last
    row, it is the result.
    """
    neutral = data.dtype.type(-np.inf if ufunc is np.maximum else np.inf)
    rows = combine(ufunc, data, ids, count, neutral)
    bound = rows.dtype.type(end)
    if not np.isnan(rows).any():
        return ufunc(rows, bound)
    is_nan = np.isnan(data)
    positions = np.arange(len(ids)).reshape(-1, *(1,) * (data.ndim - 1))
    last_nan = combine(np.maximum, np.where(is_nan, positions, -1), ids, count, -1)
    is_last = positions == combine(np.maximum, positions, ids, count, -1)[ids]
    ignored = (positions <= last_nan[ids]) & ~(is_nan & is_last)
    rows = combine(ufunc, np.where(ignored, neutral, data), ids, count, neutral)
    return np.where(last_nan < 0, ufunc(rows, bound), rows)


def _check_below(flat: Value, shape: tuple[int, ...], count: int) -> None:
    if flat.size and flat.max() >= count:
        first = int(np.argmax(flat >= count))
        position = ",".join(map(str, np.unravel_index(first, shape)))
        raise InvalidArgumentError(
            f"segment_ids[{position}] = {flat[first]} is out of range [0, {count})"
        )


_UFUNCS: Final = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}
_FILLS: Final = {"add": _zero, "multiply": _one, "max": _lowest, "min": _highest}

SEGMENTS = segment_kernels(
    "numpy",
    unsorted=lambda how: _unsorted_segments(_UFUNCS[how], _FILLS[how]),
    ordered=lambda how: _sorted_segments_v2(_UFUNCS[how], _FILLS[how]),
)
SORTED_SEGMENTS = KernelTable(
    KernelDef(
        ops=(f"Segment{name}",),
        function=_sorted_segments(_UFUNCS[how], _one if how == "multiply" else _zero),
        backend="numpy",
        dynamic_shape=True,
    )
    for name, how in COMBINED.items()
)


@kernel("SegmentMean", backend="numpy", dynamic_shape=True)
def segment_mean(data: Value, ids: Value) -> Value:
    """Average the rows of each segment; zero for empty ones."""
    _check_sorted(data, ids)
    count = _count_of(data, ids)
    total = combine_sorted(np.add, data, ids, count, 0)
    check_size((count,), "the sizes of segments", itemsize=2 * POINTER_SIZE + total.itemsize)
    rows = np.maximum(np.bincount(ids, minlength=count), 1).astype(total.dtype)
    rows = rows.reshape((count,) + (1,) * (data.ndim - 1))
    if data.dtype.kind in "iu":
        return np.floor_divide(total - np.fmod(total, rows), rows)
    return (total / rows).astype(data.dtype)


def _sparse_segments(
    data: Value, indices: Value, ids: Value, count: int | None, scale: str
) -> Value:
    """Combine the rows `data[indices]` by sorted ids: their sum, mean, or sum / sqrt(n)."""
    if data.ndim == 0:
        raise InvalidArgumentError("data must be at least a vector, got a scalar")
    _check_indices(indices, data.shape[0])
    if ids.size and (ids[1:] < ids[:-1]).any():
        raise InvalidArgumentError("segment ids are not increasing")
    if ids.size and ids[0] < 0:
        raise InvalidArgumentError("segment ids must be >= 0")
    if count is None:
        count = _count_of(data, ids)
    elif ids.size and ids[-1] >= count:
        raise InvalidArgumentError(f"segment ids must be < num_segments = {count}, got {ids[-1]}")
    check_size((count, *data.shape[1:]), itemsize=data.dtype.itemsize)
    total = combine_sorted(np.add, data, ids, count, 0, indices)
    if scale != "sum":
        total = total / _divisors(ids, count, scale, total)
    return total.astype(data.dtype, copy=False)


def _divisors(ids: Value, count: int, scale: str, like: Value) -> Value:
    """Return the divisor of each segment, in a shape that broadcasts to `like`."""
    check_size((count,), "the sizes of segments", itemsize=2 * POINTER_SIZE + like.itemsize)
    rows = np.maximum(np.bincount(ids, minlength=count), 1).astype(like.dtype)
    if scale == "sqrtn":
        rows = np.sqrt(rows)
    return rows.reshape(rows.shape + (1,) * (like.ndim - 1))


def _check_indices(indices: Value, size: int) -> None:
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        first = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"Bad: indices[{first}] == {indices.reshape(-1)[first]} out of range [0, {size})"
        )


@kernel("SparseSegmentSum", backend="numpy", dynamic_shape=True)
def sparse_segment_sum(data: Value, indices: Value, ids: Value) -> Value:
    """Add the chosen rows of each segment."""
    check_vectors(indices.shape, ids.shape)
    return _sparse_segments(data, indices, ids, None, "sum")


@kernel("SparseSegmentMean", backend="numpy", dynamic_shape=True)
def sparse_segment_mean(data: Value, indices: Value, ids: Value) -> Value:
    """Average the chosen rows of each segment."""
    check_vectors(indices.shape, ids.shape)
    return _sparse_segments(data, indices, ids, None, "mean")


@kernel("SparseSegmentSqrtN", backend="numpy", dynamic_shape=True)
def sparse_segment_sqrt_n(data: Value, indices: Value, ids: Value) -> Value:
    """Sum the chosen rows of each segment, divided by the square root of their count."""
    check_vectors(indices.shape, ids.shape)
    return _sparse_segments(data, indices, ids, None, "sqrtn")


def _rows_of_gradient(grad: Value, ids: Value, scale: str) -> Value:
    """Return for each selected row the gradient of its segment, divided as in the forward op."""
    _check_ids_of_gradient(ids, grad.shape[0] if grad.ndim else 0)
    wide = grad.astype(np.float32) if is_narrow(grad.dtype) else grad
    if scale != "sum":
        wide = wide / _divisors(ids, grad.shape[0], scale, wide)
    check_size((len(ids), *wide.shape[1:]), "the rows of the ids", itemsize=wide.dtype.itemsize)
    return wide[ids]


def _check_ids_of_gradient(ids: Value, segments: int) -> None:
    outside = (ids < 0) | (ids >= segments)
    if outside.any():
        raise InvalidArgumentError(
            f"Segment id {ids[int(np.argmax(outside))]} out of range [0, {segments})"
        )


@kernel("_SegmentRows", backend="numpy")
def segment_rows(grad: Value, ids: Value, scale: str) -> Value:
    """Return the row of `grad` for each segment id, divided according to `scale`."""
    return _rows_of_gradient(grad, ids, scale).astype(grad.dtype)


def _sparse_gradient(scale: str) -> Callable[[Value, Value, Value, int], Value]:
    def gradient(grad: Value, indices: Value, ids: Value, size: int) -> Value:
        check_size((size, *grad.shape[1:]), itemsize=grad.dtype.itemsize)
        _check_indices(indices, size)
        rows = _rows_of_gradient(grad, ids, scale)
        return combine(np.add, rows, indices, size, 0).astype(grad.dtype)

    return gradient


def _sparse_gradient_v2(scale: str) -> Callable[..., tuple[Value, Value]]:
    def gradient(
        grad: Value, indices: Value, ids: Value, dense_output_dim0: Value
    ) -> tuple[Value, Value]:
        check_vectors(indices.shape, ids.shape)
        _check_indices(indices, scalar_int("dense_output_dim0", dense_output_dim0))
        rows = _rows_of_gradient(grad, ids, scale)
        unique, inverse = np.unique(indices, return_inverse=True)
        result = combine(np.add, rows, inverse.reshape(-1), unique.size, 0)
        return result.astype(grad.dtype), unique

    return gradient


def _sparse_rows(scale: str) -> Callable[[Value, Value, Value, int], Value]:
    return partial(_sparse_segments, scale=scale)


SPARSE_SEGMENTS = sparse_segment_kernels("numpy", combine=_sparse_rows, gradient=_sparse_gradient)
SPARSE_GRADIENTS = KernelTable(
    KernelDef(
        ops=(f"SparseSegment{name}GradV2",),
        function=_sparse_gradient_v2(scale),
        backend="numpy",
        types={"T": dtypes.FLOATING},
        dynamic_shape=True,
    )
    for name, scale in SCALES.items()
)
