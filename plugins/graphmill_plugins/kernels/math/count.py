"""Bin counts, bucketing and histograms.

Semantics: tensorflow/core/kernels/bincount_op.cc, count_ops.cc, bucketize_op.cc, histogram_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


@kernel("Bucketize", make=True)
def bucketize(
    xp: ArrayNamespace, T: np.dtype[Any], boundaries: tuple[float, ...]
) -> Callable[[Value], Value]:
    """Return for each element the number of boundaries less than or equal to it."""
    edges = np.asarray(boundaries, np.float32)
    if (edges[1:] < edges[:-1]).any():
        raise InvalidArgumentError(f"Expected sorted boundaries, got {list(boundaries)}")
    # As in C++, compare in the common type of float and the input.
    compared = T if T.name == "float64" else np.dtype(np.float32)
    edges = edges.astype(compared)

    def find(x: Value) -> Value:
        buckets = xp.searchsorted(edges, x.astype(compared), side="right")
        return buckets.astype(np.int32)

    return find


def bins_of(size: Value) -> int:
    """Return the number of bins in an input.

    Raises:
        InvalidArgumentError: it is not a scalar, or negative.
    """
    if size.ndim:
        raise InvalidArgumentError(f"size must be a scalar, got shape {shape_text(size.shape)}")
    count: int = size.item()
    if count < 0:
        raise InvalidArgumentError(f"size ({count}) must be non-negative")
    return count


def check_weights(weights: Value, shape: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError unless weights are empty or have the shape of the values."""
    if weights.size and weights.shape != shape:
        raise InvalidArgumentError(
            "weights must be empty or of the shape of the values: "
            f"{shape_text(weights.shape)} is not {shape_text(shape)}"
        )


def _check_bins(values: Value, size: Value, weights: Value, *, like: tuple[int, ...]) -> int:
    """Check the inputs of the bincount family and return the number of bins."""
    count = bins_of(size)
    check_size((*like[:-1], count), "the counts", itemsize=weights.dtype.itemsize)
    check_weights(weights, like)
    if values.size and values.min() < 0:
        raise InvalidArgumentError("Input arr must be non-negative!")
    return count


def _count_into(
    bins: Value, indices: tuple[Value, ...], weights: Value, binary: bool, count: int
) -> Value:
    """Add weights (or ones) to `bins` at `indices`; skip indices that end with `count` or more."""
    inside = indices[-1] < count
    indices = tuple(index[inside] for index in indices)
    if binary:
        bins[indices] = 1
    elif weights.size:
        np.add.at(bins, indices, weights[inside])
    else:
        np.add.at(bins, indices, bins.dtype.type(1))
    return bins


@kernel("Bincount", backend="numpy")
def bincount(arr: Value, size: Value, weights: Value) -> Value:
    """Count (or add the weights of) the values 0 … size-1; larger ones are ignored."""
    count = _check_bins(arr, size, weights, like=arr.shape)
    bins = np.zeros(count, weights.dtype)
    return _count_into(bins, (arr.reshape(-1),), weights.reshape(-1), binary=False, count=count)


@kernel("DenseBincount", backend="numpy")
def dense_bincount(x: Value, size: Value, weights: Value, *, binary_output: bool) -> Value:
    """Count values of a vector, or of each row of a matrix."""
    if x.ndim > 2:
        raise InvalidArgumentError(f"Shape must be at most rank 2 but is rank {x.ndim}")
    count = _check_bins(x, size, weights, like=x.shape)
    bins = np.zeros((*x.shape[:-1], count), weights.dtype)
    positions: tuple[Value, ...] = (x.reshape(-1),)
    if x.ndim == 2:
        positions = (np.repeat(np.arange(x.shape[0]), x.shape[1]), *positions)
    return _count_into(bins, positions, weights.reshape(-1), binary_output, count)


@kernel("SparseBincount", backend="numpy")
def sparse_bincount(
    indices: Value,
    values: Value,
    dense_shape: Value,
    size: Value,
    weights: Value,
    *,
    binary_output: bool,
) -> Value:
    """Count the values of a sparse vector, or of each row of a sparse matrix."""
    count = _check_bins(values, size, weights, like=values.shape)
    _check_sparse(indices, values, dense_shape)
    positions: tuple[Value, ...] = (values,)
    shape: tuple[int, ...] = (count,)
    if dense_shape.shape[0] == 2:
        rows = int(dense_shape[0])
        positions, shape = (indices[:, 0], values), (rows, count)
        check_size(shape, "the counts", itemsize=weights.dtype.itemsize)
    return _count_into(np.zeros(shape, weights.dtype), positions, weights, binary_output, count)


@kernel("RaggedBincount", backend="numpy")
def ragged_bincount(
    splits: Value,
    values: Value,
    size: Value,
    weights: Value,
    *,
    binary_output: bool,
) -> Value:
    """Count the values of each row of a ragged matrix; values and weights are flattened."""
    values, weights = values.reshape(-1), weights.reshape(-1)
    count = _check_bins(values, size, weights, like=values.shape)
    rows = rows_of_splits(splits, values.size)
    shape = (splits.size - 1, count)
    check_size(shape, "the counts", itemsize=weights.dtype.itemsize)
    bins = np.zeros(shape, weights.dtype)
    return _count_into(bins, (rows, values), weights, binary_output, count)


def rows_of_splits(splits: Value, size: int) -> Value:
    """Return the row of each value of a ragged matrix.

    Raises:
        InvalidArgumentError: the splits do not begin at 0, descend, or end elsewhere than `size`.
    """
    if splits.ndim != 1:
        raise InvalidArgumentError(f"Splits must be a vector, got {shape_text(splits.shape)}")
    if splits.size == 0 or splits[0] != 0:
        raise InvalidArgumentError("Splits must start with 0")
    if splits[-1] != size:
        raise InvalidArgumentError(
            f"Splits must end with the number of values, got {splits[-1]} instead of {size}"
        )
    lengths = splits[1:] - splits[:-1]
    if (lengths < 0).any():
        raise InvalidArgumentError("Splits must not decrease")
    return np.repeat(np.arange(lengths.size), lengths)


def _check_sparse(indices: Value, values: Value, dense_shape: Value) -> None:
    """Check the parts of a sparse vector or matrix.

    Raises:
        InvalidArgumentError: their shapes do not match, or an index is out of range.
    """
    shapes = f"{shape_text(indices.shape)}, {shape_text(values.shape)} and {dense_shape.tolist()}"
    if indices.ndim != 2 or values.ndim != 1 or dense_shape.ndim != 1:
        raise InvalidArgumentError(
            "indices must be a matrix, and values and dense shape must be vectors; got indices, "
            f"values, dense shape: {shapes}"
        )
    if indices.shape != (values.shape[0], dense_shape.shape[0]) or not dense_shape.size:
        raise InvalidArgumentError(
            f"Index rank, values and shape do not match: indices, values, dense shape: {shapes}"
        )
    if ((indices < 0) | (indices >= dense_shape)).any():
        raise InvalidArgumentError(f"an index is outside of the dense shape {dense_shape.tolist()}")


@kernel("HistogramFixedWidth", backend="numpy")
def histogram_fixed_width(
    values: Value, value_range: Value, nbins: Value, *, dtype: np.dtype[Any]
) -> Value:
    """Count values in bins of equal width; the end bins include values out of range."""
    count = scalar_int("nbins", nbins)
    if count <= 0:
        raise InvalidArgumentError(f"nbins should be a positive number, but got '{count}'")
    if value_range.shape != (2,):
        raise InvalidArgumentError(
            f"value_range should be a vector of 2 elements, got {value_range}"
        )
    low, high = value_range.astype(np.float64)
    if low >= high:
        raise InvalidArgumentError(
            f"value_range should satisfy value_range[0] < value_range[1], but got [{low}, {high}]"
        )
    if count == 1:
        return np.array([values.size], dtype)  # NaN is counted, too
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InvalidArgumentError("Histogram values must not contain NaN")
    check_size((count,), "the counts", itemsize=8)
    step = (high - low) / count
    above = np.maximum(values, value_range[0])
    if values.dtype.kind == "i":
        above = above.astype(np.float64)  # differences of large integers overflow
    above = above - value_range[0]
    bins = np.minimum(above.astype(np.float64) / step, count - 1).astype(np.int32)
    return np.bincount(bins.reshape(-1), minlength=count).astype(dtype)


def _counts_by_row(
    rows: Value, values: Value, weights: Value, shape: tuple[int, ...], options: dict[str, Any]
) -> tuple[Value, Value, Value]:
    """Return indices, counts and dense shape of the values that occur in each row."""
    minlength, maxlength = options["minlength"], options["maxlength"]
    if values.size and values.min() < 0:
        raise InvalidArgumentError(f"Input values must all be non-negative, got {values.min()}")
    inside = slice(None) if maxlength < 0 else values < maxlength
    rows, values = rows[inside], values[inside].astype(np.int64)
    width = max(int(values.max(initial=0)) + 1, minlength)
    if maxlength >= 0:
        width = maxlength
    distinct, columns, span = None, values, max(width, 1)
    if span * (int(rows.max(initial=0)) + 1) >= 1 << 63:  # row * span + value would overflow int64
        distinct, columns = np.unique(values, return_inverse=True)
        span = max(distinct.size, 1)
    keys, inverse = np.unique(rows * span + columns.reshape(-1), return_inverse=True)
    counts = np.zeros(keys.size, options["output_type"])
    if options["binary_output"]:
        counts[:] = 1
    else:
        np.add.at(counts, inverse.reshape(-1), weights[inside] if weights.size else 1)
    row, value = np.divmod(keys, span)
    value = value if distinct is None else distinct[value]
    indices = value[:, None] if len(shape) == 0 else np.stack([row, value], 1)
    return indices, counts, np.asarray([*shape, width], np.int64)


@kernel("DenseCountSparseOutput", backend="numpy", dynamic_shape=True)
def dense_count_sparse_output(
    values: Value, weights: Value, **options: Any
) -> tuple[Value, Value, Value]:
    """Count the values of a vector or of each row of a matrix; a sparse result."""
    if values.ndim not in (1, 2):
        raise InvalidArgumentError(f"Input must be a 1 or 2-dimensional tensor. Got: {values.ndim}")
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError("Weights and values must have the same shape")
    shape = values.shape[:-1]
    if 0 in shape:
        raise InvalidArgumentError("Invalid input: Shapes dimension cannot be 0.")
    check_size(shape, "the list of rows", itemsize=8)
    rows = np.repeat(np.arange(shape[0] if shape else 1), values.shape[-1])
    return _counts_by_row(rows, values.reshape(-1), weights.reshape(-1), shape, options)


@kernel("SparseCountSparseOutput", backend="numpy", dynamic_shape=True)
def sparse_count_sparse_output(
    indices: Value,
    values: Value,
    dense_shape: Value,
    weights: Value,
    **options: Any,
) -> tuple[Value, Value, Value]:
    """Count the values of a sparse vector or of each row of a sparse matrix."""
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError("Weights and values must have the same shape")
    _check_sparse(indices, values, dense_shape)
    if dense_shape.size == 1:
        return _counts_by_row(np.zeros(values.size, np.int64), values, weights, (), options)
    count = int(dense_shape[0])
    return _counts_by_row(indices[:, 0], values, weights, (count,), options)


@kernel("RaggedCountSparseOutput", backend="numpy", dynamic_shape=True)
def ragged_count_sparse_output(
    splits: Value, values: Value, weights: Value, **options: Any
) -> tuple[Value, Value, Value]:
    """Count the values of each row of a ragged matrix; a sparse result."""
    if weights.size and weights.shape != values.shape:
        raise InvalidArgumentError("Weights and values must have the same shape")
    rows = rows_of_splits(splits, values.size)
    return _counts_by_row(rows, values, weights, (splits.size - 1,), options)
