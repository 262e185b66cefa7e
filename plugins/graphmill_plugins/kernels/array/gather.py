"""Gathering by index, on NumPy. Indices outside of the input raise, negative ones too.

Semantics: tensorflow/core/kernels/gather_op.cc, gather_nd_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import (
    checked_axis,
    is_string,
    object_array,
    shape_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_SMALL = 16  # up to here Python's min and max are faster than NumPy's


def check_indices(indices: Value, size: int) -> None:
    """Check that all indices lie in [0, size).

    Raises:
        InvalidArgumentError: one does not; names the first.
    """
    if indices.ndim == 0:
        low = high = indices
    elif indices.size == 0:
        return
    elif indices.ndim == 1 and indices.size <= _SMALL:
        values = indices.tolist()
        low, high = min(values), max(values)
    else:
        low, high = indices.min(), indices.max()
    if low < 0 or high >= size:
        _raise_bad_index(indices, size)


def _raise_bad_index(indices: Value, size: int) -> None:
    bad = (indices < 0) | (indices >= size)
    place = np.argwhere(bad)[0] if indices.ndim else ()
    at = f"indices[{','.join(map(str, place))}]" if indices.ndim else "indices"
    value = indices[tuple(place)]
    raise InvalidArgumentError(f"{at} = {value} is not in [0, {size})")


@kernel("Gather", backend="numpy", make=True)
def gather(Tparams: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Take rows of `params`.

    Raises:
        InvalidArgumentError: an index is out of range.
    """
    strings = is_string(Tparams)

    def take(params: Value, indices: Value) -> Value:
        if params.ndim == 0:
            raise InvalidArgumentError("params must be at least 1 dimensional")
        if not params.size and params.shape[0]:
            indices = np.zeros_like(indices)  # rows without elements: whichever it is
        check_indices(indices, params.shape[0])
        rows = params.take(indices, 0)
        return object_array(rows) if strings else rows

    return take


@kernel("GatherV2", backend="numpy", static=("axis",), make=True)
def gather_v2(Tparams: np.dtype[Any], batch_dims: int) -> Callable[[Value, Value, Value], Value]:
    """Take slices of `params` along an axis, for each entry of the batch dimensions.

    Raises:
        InvalidArgumentError: an index or the axis is out of range, or batch shapes differ.
    """
    strings = is_string(Tparams)

    def take(params: Value, indices: Value, axis: Value) -> Value:
        along = gather_axis(axis, params.ndim)
        if not params.size and params.shape[along]:
            indices = np.zeros_like(indices)  # slices without elements: whichever it is
        check_indices(indices, params.shape[along])
        if batch_dims:
            result = take_batches(np, _take_rows, params, indices, along, batch_dims)
        else:
            result = params.take(indices, along)
        return object_array(result) if strings else result

    return take


def gather_axis(axis: Value, rank: int) -> int:
    """Return the axis along which to gather, counted from the front.

    Raises:
        InvalidArgumentError: it is no scalar, or no axis.
    """
    if axis.ndim:
        raise InvalidArgumentError(f"axis must be scalar, got shape {shape_text(axis.shape)}")
    return checked_axis(axis.item(), rank)


def _take_rows(rows: Value, indices: Value) -> Value:
    return rows.take(indices, 0)


def batch_count(params: Value, indices: Value, axis: int, batch_dims: int) -> int:
    """Return the number of batch dimensions of a gather, checked against shapes.

    Raises:
        InvalidArgumentError: it is out of range, beyond the axis, or batch shapes differ.
    """
    if not -indices.ndim <= batch_dims <= indices.ndim:
        raise InvalidArgumentError(
            f"Expected batch_dims in the range [{-indices.ndim}, {indices.ndim}], "
            f"but got {batch_dims}"
        )
    count = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    if count > axis:
        raise InvalidArgumentError(
            f"batch_dims ({count}) must be less than or equal to axis ({axis})."
        )
    if params.shape[:count] != indices.shape[:count]:
        raise InvalidArgumentError(
            f"params.shape {shape_text(params.shape)} and indices.shape "
            f"{shape_text(indices.shape)} should agree in the first {count} dimensions"
        )
    return count


def take_batches(
    xp: ArrayNamespace,
    take: Callable[[Value, Value], Value],
    params: Value,
    indices: Value,
    axis: int,
    batch_dims: int,
) -> Value:
    """Gather along `axis` within each entry of the batch dimensions, given `take` of rows."""
    count = batch_count(params, indices, axis, batch_dims)
    size, own = params.shape[axis], indices.ndim - count
    rows = xp.moveaxis(params, axis, count)
    between, inner = rows.shape[count + 1 : axis + 1], rows.shape[axis + 1 :]
    entries = math.prod(indices.shape[:count])
    offsets = (np.arange(entries) * size).reshape(indices.shape[:count] + (1,) * own)
    flat = rows.reshape((entries * size, *between, *inner))
    result = take(flat, indices + offsets)
    last = indices.ndim - 1 + len(between)
    return xp.moveaxis(result, range(count, indices.ndim), range(last - own + 1, last + 1))


@kernel("GatherNd", backend="numpy", make=True)
def gather_nd(Tparams: np.dtype[Any], bad_indices_policy: str) -> Callable[[Value, Value], Value]:
    """Take the slices that the vectors in the last dimension of `indices` point to.

    Raises:
        InvalidArgumentError: a vector is longer than `params` has dimensions or points outside;
            with the policy "IGNORE" such slices are zero instead.
    """
    ignore = ignores_bad_indices(bad_indices_policy)

    def take(params: Value, indices: Value) -> Value:
        sizes = check_depth(params, indices)
        if not sizes:
            return np.broadcast_to(params, indices.shape[:-1] + params.shape)
        bad = outside(indices, sizes)
        if bad.any():
            if not ignore:
                raise bad_vector(indices, bad, params.shape)
            indices = np.where(bad[..., None], 0, indices)
        result = _at_vectors(params, indices, sizes)
        if ignore and bad.any():
            result[bad] = b"" if is_string(Tparams) else 0
        return result

    return take


def _at_vectors(params: Value, indices: Value, sizes: tuple[int, ...]) -> Value:
    """Return the slices at index vectors: by one number each, where that is free."""
    if not params.flags.c_contiguous:
        return params[(*np.moveaxis(indices, -1, 0), ...)]
    places = np.zeros(indices.shape[:-1], np.int64)
    for axis, size in enumerate(sizes):
        places *= size
        places += indices[..., axis]
    depth = len(sizes)
    flat = params.reshape((math.prod(sizes), *params.shape[depth:]))
    return flat.take(places, axis=0) if places.ndim else flat[places, ...]


def ignores_bad_indices(policy: str) -> bool:
    """Say whether bad indices are passed over, by the attr `bad_indices_policy`.

    Raises:
        InvalidArgumentError: there is no such policy.
    """
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise InvalidArgumentError(
            f"Unknown bad indices handling attribute: {policy!r}; it is DEFAULT, ERROR or IGNORE"
        )
    return policy == "IGNORE"


def check_depth(params: Value, indices: Value) -> tuple[int, ...]:
    """Return the sizes of the dimensions that index vectors point into.

    Raises:
        InvalidArgumentError: the indices are a scalar or their vectors too long, or something is
            asked of nothing.
    """
    if indices.ndim == 0:
        raise InvalidArgumentError("indices must be at least a vector")
    depth = indices.shape[-1]
    if depth > params.ndim:
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. "
            f"{params.ndim}"
        )
    if not params.size and math.prod(indices.shape[:-1]):
        raise InvalidArgumentError(
            "Requested more than 0 entries, but params is empty. Params shape: "
            f"{shape_text(params.shape)}"
        )
    sizes: tuple[int, ...] = params.shape[:depth]
    return sizes


def outside(indices: Value, sizes: tuple[int, ...]) -> Value:
    """Tell which index vectors point outside of dimensions of these sizes."""
    bad = np.zeros(indices.shape[:-1], np.bool_)
    for axis, size in enumerate(sizes):
        places = indices[..., axis]
        if places.size and (places.min() < 0 or places.max() >= size):
            bad |= (places < 0) | (places >= size)
    return bad


def bad_vector(indices: Value, bad: Value, shape: tuple[int, ...]) -> InvalidArgumentError:
    """Return the error that names the first bad index vector."""
    place = tuple(np.argwhere(bad)[0]) if np.ndim(bad) else ()
    at = ",".join(map(str, place))
    vector = ", ".join(map(str, indices[place].tolist()))
    return InvalidArgumentError(
        f"indices[{at}] = [{vector}] does not index into param shape {shape_text(shape)}"
    )
