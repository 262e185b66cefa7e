"""Unstack tensors along the first axis, and stack them again.

Elements have the form in which executors pass values: arrays, NumPy scalars, and for variants and
resources the objects themselves. The functions return views where they can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size, namespace_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value

_BLOCK: Final = 4_096  # bytes of small elements that share one buffer


def rows(tensor: Value, dtype: dtypes.DType) -> list[Value]:
    """Return the elements of a tensor along its first axis, as views."""
    if dtype is dtypes.string and tensor.ndim == 1:
        return [tensor[index, ...] for index in range(len(tensor))]  # 0-d arrays, not bare bytes
    return list(tensor)


def copied_rows(tensor: Value, dtype: dtypes.DType) -> list[Value]:
    """Return copies of the rows of a tensor, to which nothing else writes.

    Small rows share buffers of limited size, so that one row keeps only few others in memory.
    """
    count = max(_BLOCK * len(tensor) // max(tensor.nbytes, 1), 1)
    if count >= len(tensor):
        return rows(tensor.copy(), dtype)
    starts = cancellable(range(0, len(tensor), count), interval=1)
    return [
        element for start in starts for element in rows(tensor[start : start + count].copy(), dtype)
    ]


def row(tensor: Value, index: int, dtype: dtypes.DType) -> Value:
    """Return one element of a tensor along its first axis, as a view."""
    if dtype is dtypes.string and tensor.ndim == 1:
        return tensor[index, ...]
    return tensor[index]


def stacked(
    xp: ArrayNamespace, values: Sequence[Value], shape: tuple[int, ...], dtype: dtypes.DType
) -> Value:
    """Return elements that all have `shape` as one tensor with a new first axis."""
    if not values:
        return zeros(xp, (0, *shape), dtype)
    # The elements may be the same one many times.
    itemsize = dtype.as_numpy_dtype.itemsize
    check_size((len(values), *shape), "the stacked elements", itemsize=itemsize)
    if dtype.kind in "sh":
        return _stacked_objects(values, shape, dtype)
    if not shape:
        return xp.asarray(values, dtype=dtype.as_numpy_dtype)
    if shape[0] == 0:
        return zeros(xp, (len(values), *shape), dtype)
    # Faster than `stack`, which first adds an axis to each element.
    return xp.concatenate(values).reshape(len(values), *shape)


def _stacked_objects(
    values: Sequence[Value], shape: tuple[int, ...], dtype: dtypes.DType
) -> np.ndarray[Any, Any]:
    result = np.empty((len(values), *shape), dtype.as_numpy_dtype)
    for index, value in enumerate(values):
        result[index] = value[()] if isinstance(value, np.ndarray) and not shape else value
    return result


def joined(xp: ArrayNamespace, values: Sequence[Value]) -> Value:
    """Return elements of rank one or more concatenated along the first axis."""
    if len(values) == 1:
        return values[0]
    shape = (sum(map(len, values)), *values[0].shape[1:])
    check_size(shape, "the concatenated elements", itemsize=values[0].dtype.itemsize)
    return namespace_of(xp, values[0]).concatenate(values)


def zeros(xp: ArrayNamespace, shape: tuple[int, ...], dtype: dtypes.DType) -> Value:
    """Return a tensor of zeros, of empty strings, or of None for variants and resources.

    Raises:
        ResourceExhaustedError: it is larger than the memory budget.
    """
    check_size(shape, itemsize=dtype.as_numpy_dtype.itemsize)
    if dtype.kind not in "sh":
        return xp.zeros(shape, dtype.as_numpy_dtype)
    blank = b"" if dtype is dtypes.string else None
    return np.full(shape, blank, dtype.as_numpy_dtype)
