"""RaggedTensorToTensor: convert ragged values to a dense tensor, truncated or padded.

Semantics: tensorflow/core/kernels/ragged_tensor_to_tensor_op.cc.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import (
    POINTER_SIZE,
    check_axis_count,
    check_size,
    object_array,
    shape_text,
)
from graphmill_plugins.kernels.ragged._ragged import check_splits
from graphmill_plugins.kernels.segment_reduce import run_lengths, run_starts

if TYPE_CHECKING:
    from graphmill.spi import Value


_FEW: Final = 32
"""The number of rows up to which copying them one by one is faster."""


def _row_ids(kind: str, tensor: Value) -> Any:
    """Return the row index of each item of a level."""
    if kind == "VALUE_ROWIDS":
        if tensor.ndim != 1 or (tensor[1:] < tensor[:-1]).any() or (tensor < 0).any():
            raise InvalidArgumentError("value_rowids must be a vector that does not decrease")
        return tensor.astype(np.int64)
    check_splits(tensor, int(tensor[-1]) if tensor.ndim == 1 and tensor.size else 0)
    if len(tensor):
        check_size((int(tensor[-1]),), "the list of rows", itemsize=POINTER_SIZE)
    return np.repeat(np.arange(len(tensor) - 1), tensor[1:] - tensor[:-1])


def _levels(kinds: tuple[str, ...], tensors: list[Value]) -> tuple[int, list[Any]]:
    """Return the number of rows, and for each ragged level the row index of each item.

    Raises:
        InvalidArgumentError: the kinds are unknown or in the wrong order, or a row is missing.
    """
    if len(kinds) != len(tensors):
        raise InvalidArgumentError(
            f"there are {len(tensors)} row partition tensors but {len(kinds)} types"
        )
    for index, kind in enumerate(kinds):
        allowed = ("ROW_SPLITS", "VALUE_ROWIDS") if index else ("FIRST_DIM_SIZE", "ROW_SPLITS")
        if kind not in allowed:
            raise InvalidArgumentError(
                f"row_partition_types[{index}] = {kind!r}; expected one of {list(allowed)}"
            )
    if kinds[0] == "FIRST_DIM_SIZE":
        if tensors[0].ndim:
            raise InvalidArgumentError("the size of the first dimension must be a scalar")
        rows = int(tensors[0])
        kinds, tensors = kinds[1:], tensors[1:]
    else:
        if tensors[0].ndim != 1:
            raise InvalidArgumentError("row splits must be a vector")
        rows = len(tensors[0]) - 1
    levels = [_row_ids(kind, tensor) for kind, tensor in zip(kinds, tensors, strict=True)]
    num_rows = rows
    for kind, tensor, ids in zip(kinds, tensors, levels, strict=True):
        if len(ids) and ids[-1] >= num_rows:
            raise InvalidArgumentError(f"row {ids[-1]} does not exist: there are {num_rows} rows")
        if kind == "ROW_SPLITS" and len(tensor) - 1 != num_rows:
            raise InvalidArgumentError(
                f"row splits describe {len(tensor) - 1} rows, but there are {num_rows}"
            )
        num_rows = len(ids)
    return rows, levels


def _positions(ids: Any) -> Any:
    """Return each item's position in its row; `ids` ascend."""
    first = run_starts(ids)
    return np.arange(len(ids)) - np.repeat(first, run_lengths(first, len(ids)))


def _output_shape(
    shape: Value, rows: int, widths: list[int], inner: tuple[int, ...]
) -> tuple[int, ...]:
    actual = [rows, *widths, *inner]
    if not shape.ndim:
        if int(shape) != -1:
            raise InvalidArgumentError("a scalar shape must be -1 (an unknown shape)")
        return tuple(actual)
    if shape.ndim > 1:
        raise InvalidArgumentError(f"shape must be a vector, got {shape_text(shape.shape)}")
    check_axis_count(shape, "shape")
    sizes = shape.tolist()
    if any(size < -1 for size in sizes):
        raise InvalidArgumentError(f"shape {sizes} has a size below -1")
    if len(sizes) != len(actual):
        raise InvalidArgumentError(
            f"shape {sizes} has {len(sizes)} dimensions, the ragged tensor {len(actual)}"
        )
    ragged = 1 + len(widths)
    for requested, size in zip(sizes[ragged:], actual[ragged:], strict=True):
        if requested not in (-1, size):
            raise InvalidArgumentError(
                f"Inconsistent dimensions: shape is {sizes} and values have {list(inner)}"
            )
    return tuple(
        size if requested < 0 else requested for requested, size in zip(sizes, actual, strict=True)
    )


@kernel("RaggedTensorToTensor", host=True)
def ragged_tensor_to_tensor(
    shape: Value,
    values: Value,
    default_value: Value,
    row_partition_tensors: list[Value],
    row_partition_types: tuple[str, ...],
) -> Value:
    """Return the ragged values as a dense tensor, with rows padded by the default or truncated."""
    if not values.ndim:
        raise InvalidArgumentError("values may not be a scalar")
    if row_partition_types == ("ROW_SPLITS",):
        bounds = _bounds_of_few(row_partition_tensors, len(values))
        if bounds is not None:
            return _padded_rows(np.asarray(shape), values, default_value, bounds)
    rows, levels = _levels(row_partition_types, row_partition_tensors)
    if not levels:
        raise InvalidArgumentError("at least one row partition is needed besides FIRST_DIM_SIZE")
    if len(levels[-1]) != values.shape[0]:
        raise InvalidArgumentError(
            f"the last row partition has {len(levels[-1])} items, but there are "
            f"{values.shape[0]} values"
        )
    columns = [_positions(ids) for ids in levels]
    widths = [int(column.max(initial=-1)) + 1 for column in columns]
    inner = values.shape[1:]
    sizes = _output_shape(np.asarray(shape), rows, widths, inner)
    out = _filled(sizes, default_value, values.dtype, inner)
    if not out.size:
        return out
    indices = [levels[-1], columns[-1]]
    for ids, column in zip(levels[-2::-1], columns[-2::-1], strict=True):
        row = indices[0]
        indices = [ids[row], column[row], *indices[1:]]
    if sizes[0] < rows or any(a < b for a, b in zip(sizes[1:], widths, strict=False)):
        is_inside = np.logical_and.reduce(
            [index < size for index, size in zip(indices, sizes, strict=False)], axis=0
        )
        indices, values = [index[is_inside] for index in indices], values[is_inside]
    flat = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=False):
        flat = flat * size + index
    out.reshape(-1, *inner)[flat] = values
    return out


def _bounds_of_few(partitions: list[Value], count: int) -> list[tuple[int, int]] | None:
    """Return where each row begins and ends; None for many rows, or if the splits are wrong."""
    if len(partitions) != 1 or partitions[0].ndim != 1 or not 1 < partitions[0].size <= _FEW:
        return None
    splits = partitions[0].tolist()
    bounds = list(pairwise(splits))
    if splits[0] or splits[-1] != count or any(start > stop for start, stop in bounds):
        return None
    return bounds


def _padded_rows(
    shape: Value, values: Value, default: Value, bounds: list[tuple[int, int]]
) -> Value:
    """Return rows as a dense tensor, copied one by one."""
    inner = values.shape[1:]
    width = max(stop - start for start, stop in bounds)
    sizes = _output_shape(shape, len(bounds), [width], inner)
    out: Value = _filled(sizes, default, values.dtype, inner)
    limit = sizes[1]
    for row, (start, stop) in zip(out, bounds, strict=False):
        row[: stop - start] = values[start : min(stop, start + limit)]
    return out


def _filled(
    sizes: tuple[int, ...], default: Value, dtype: np.dtype[Any], inner: tuple[int, ...]
) -> Any:
    """Return a tensor filled with the default, which broadcasts over the shape of one value."""
    default = object_array(default) if dtype.kind == "O" else np.asarray(default)
    lead = len(inner) - default.ndim
    fits = lead >= 0 and all(a in (1, b) for a, b in zip(default.shape, inner[lead:], strict=True))
    if not fits:
        raise InvalidArgumentError(
            f"default_value of shape {shape_text(default.shape)} cannot be broadcast to values of "
            f"shape {shape_text(inner)}"
        )
    check_size(sizes, itemsize=dtype.itemsize)
    out = np.empty(sizes, dtype)
    out[...] = default
    return out
