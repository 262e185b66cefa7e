"""Gather by index on NumPy; out-of-range and negative indices raise.

Semantics: tensorflow/core/kernels/gather_op.cc, gather_nd_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import (
    SMALL_REQUEST,
    check_size,
    is_string,
    object_array,
    shape_text,
)
from graphmill_plugins.kernels.array.index_ops import gather_kernels
from graphmill_plugins.kernels.array.index_plan import take_batches

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_MAX_PYTHON_SIZE = 16  # up to here Python's min and max are faster than NumPy's


def check_indices(indices: Value, size: int) -> None:
    """Check that all indices lie in [0, size).

    Raises:
        InvalidArgumentError: an index does not; the message names the first one.
    """
    if indices.ndim == 0:
        low = high = indices
    elif indices.size == 0:
        return
    elif indices.ndim == 1 and indices.size <= _MAX_PYTHON_SIZE:
        values = indices.tolist()
        low, high = min(values), max(values)
    else:
        low, high = indices.min(), indices.max()
    if low < 0 or high >= size:
        _raise_bad_index(indices, size)


def _raise_bad_index(indices: Value, size: int) -> None:
    bad = (indices < 0) | (indices >= size)
    position = np.argwhere(bad)[0] if indices.ndim else ()
    where = f"indices[{','.join(map(str, position))}]" if indices.ndim else "indices"
    value = indices[tuple(position)]
    raise InvalidArgumentError(f"{where} = {value} is not in [0, {size})")


def _gather(dtype: np.dtype[Any], batch_dims: int) -> Callable[[Value, Value, int], Value]:
    strings = is_string(dtype)

    def take(params: Value, indices: Value, axis: int) -> Value:
        if not params.size and params.shape[axis]:
            indices = np.zeros_like(indices)  # slices are empty: no index is out of range
        check_indices(indices, params.shape[axis])
        if indices.size * params.nbytes > SMALL_REQUEST and not batch_dims:
            slices = (*params.shape[:axis], *params.shape[axis + 1 :])
            check_size((*indices.shape, *slices), itemsize=params.dtype.itemsize)
        if batch_dims:
            result = take_batches(np, _take_rows, params, indices, axis, batch_dims)
        else:
            result = params.take(indices, axis)
        return object_array(result) if strings else result

    return take


def _take_rows(rows: Value, indices: Value) -> Value:
    return rows.take(indices, 0)


def _gather_vectors(
    dtype: np.dtype[Any], ignore: bool
) -> Callable[[Value, Value, tuple[int, ...]], Value]:
    nothing: Any = b"" if is_string(dtype) else 0

    def take(params: Value, indices: Value, sizes: tuple[int, ...]) -> Value:
        if indices.size * params.nbytes > SMALL_REQUEST:
            shape = (*indices.shape[:-1], *params.shape[len(sizes) :])
            check_size(shape, itemsize=params.dtype.itemsize)
        bad = outside(indices, sizes)
        if not bad.any():
            return _at_vectors(params, indices, sizes)
        if not ignore:
            raise bad_vector(indices, bad, params.shape)
        result = _at_vectors(params, np.where(bad[..., None], 0, indices), sizes)
        result[bad] = nothing
        return result

    return take


def _at_vectors(params: Value, indices: Value, sizes: tuple[int, ...]) -> Value:
    """Return the slices at index vectors, by flat indices if no copy is needed."""
    if not params.flags.c_contiguous:
        return params[(*np.moveaxis(indices, -1, 0), ...)]
    flat_indices = np.zeros(indices.shape[:-1], np.int64)
    for axis, size in enumerate(sizes):
        flat_indices *= size
        flat_indices += indices[..., axis]
    depth = len(sizes)
    flat = params.reshape((math.prod(sizes), *params.shape[depth:]))
    return flat.take(flat_indices, axis=0) if flat_indices.ndim else flat[flat_indices, ...]


def outside(indices: Value, sizes: tuple[int, ...]) -> Value:
    """Return which index vectors are out of range for dimensions of these sizes."""
    bad = np.zeros(indices.shape[:-1], np.bool_)
    for axis, size in enumerate(sizes):
        coordinates = indices[..., axis]
        if coordinates.size and (coordinates.min() < 0 or coordinates.max() >= size):
            bad |= (coordinates < 0) | (coordinates >= size)
    return bad


def bad_vector(indices: Value, bad: Value, shape: tuple[int, ...]) -> InvalidArgumentError:
    """Return the error that names the first bad index vector."""
    position = tuple(np.argwhere(bad)[0]) if np.ndim(bad) else ()
    where = ",".join(map(str, position))
    vector = ", ".join(map(str, indices[position].tolist()))
    return InvalidArgumentError(
        f"indices[{where}] = [{vector}] does not index into param shape {shape_text(shape)}"
    )


KERNELS = gather_kernels("numpy", np, gather=_gather, at_vectors=_gather_vectors)
