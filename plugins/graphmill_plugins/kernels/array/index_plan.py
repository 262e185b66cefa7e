"""Check the shapes and attributes of gathers, scatters and slices, and plan their indices.

Semantics: tensorflow/core/kernels/gather_op.cc, gather_nd_op.cc, scatter_nd_op.cc,
tensorflow/core/util/strided_slice_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._support import (
    MAX_AXES,
    check_axis_count,
    checked_axis,
    shape_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Shape = tuple[int, ...]
    Index = tuple[Any, ...]
    IndexMaker = Callable[[Shape, Value, Value, Value], Index]


def gather_axis(axis: Value, rank: int) -> int:
    """Return the gather axis, counted from the front.

    Raises:
        InvalidArgumentError: it is not a scalar, or out of range.
    """
    if axis.ndim:
        raise InvalidArgumentError(f"axis must be scalar, got shape {shape_text(axis.shape)}")
    return checked_axis(axis.item(), rank)


def batch_count(params: Shape, indices: Shape, axis: int, batch_dims: int) -> int:
    """Return the number of batch dimensions of a gather, checked against shapes.

    Raises:
        InvalidArgumentError: it is out of range, beyond the axis, or batch shapes differ.
    """
    rank = len(indices)
    if not -rank <= batch_dims <= rank:
        raise InvalidArgumentError(
            f"Expected batch_dims in the range [{-rank}, {rank}], but got {batch_dims}"
        )
    count = batch_dims + rank if batch_dims < 0 else batch_dims
    if count > axis:
        raise InvalidArgumentError(
            f"batch_dims ({count}) must be less than or equal to axis ({axis})."
        )
    if params[:count] != indices[:count]:
        raise InvalidArgumentError(
            f"params.shape {shape_text(params)} and indices.shape {shape_text(indices)} should "
            f"agree in the first {count} dimensions"
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
    """Gather along `axis` within each entry of the batch dimensions; `take` gathers rows."""
    count = batch_count(params.shape, indices.shape, axis, batch_dims)
    size, index_rank = params.shape[axis], indices.ndim - count
    rows = xp.moveaxis(params, axis, count)
    between, inner = rows.shape[count + 1 : axis + 1], rows.shape[axis + 1 :]
    entries = math.prod(indices.shape[:count])
    offsets = (np.arange(entries) * size).reshape(indices.shape[:count] + (1,) * index_rank)
    flat = rows.reshape((entries * size, *between, *inner))
    result = take(flat, indices + offsets)
    last = indices.ndim - 1 + len(between)
    return xp.moveaxis(result, range(count, indices.ndim), range(last - index_rank + 1, last + 1))


def ignores_bad_indices(policy: str) -> bool:
    """Return whether `bad_indices_policy` ignores out-of-range indices.

    Raises:
        InvalidArgumentError: there is no such policy.
    """
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise InvalidArgumentError(
            f"Unknown bad indices handling attribute: {policy!r}; it is DEFAULT, ERROR or IGNORE"
        )
    return policy == "IGNORE"


def vector_sizes(params: Shape, indices: Shape) -> Shape:
    """Return the sizes of the dimensions that index vectors address.

    Raises:
        InvalidArgumentError: the indices are a scalar, their vectors are too long, or elements of
            an empty tensor are requested.
    """
    if not indices:
        raise InvalidArgumentError("indices must be at least a vector")
    depth = indices[-1]
    if depth > len(params):
        raise InvalidArgumentError(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. "
            f"{len(params)}"
        )
    if 0 in params and 0 not in indices[:-1]:
        raise InvalidArgumentError(
            "Requested more than 0 entries, but params is empty. Params shape: "
            f"{shape_text(params)}"
        )
    return params[:depth]


def check_scatter(shape: Shape, indices: Shape, updates: Shape) -> None:
    """Check that updates fit the slices of `shape` that index vectors address.

    Raises:
        InvalidArgumentError: they do not; names the shapes.
    """
    if indices == (0,) and 0 in updates and updates == shape:
        return  # no updates into an empty tensor
    if len(indices) < 2 or not shape:
        raise InvalidArgumentError(
            "Indices must be at least a matrix of index vectors and the output shape a vector, got "
            f"{shape_text(indices)} and {shape_text(shape)}"
        )
    depth = indices[-1]
    if depth > len(shape):
        raise InvalidArgumentError(
            f"The index vectors of length {depth} are longer than the output shape "
            f"{shape_text(shape)}"
        )
    expected = indices[:-1] + shape[depth:]
    if updates != expected:
        raise InvalidArgumentError(
            f"Shape of updates {shape_text(updates)} does not fit indices of shape "
            f"{shape_text(indices)} into output shape {shape_text(shape)}; expected "
            f"{shape_text(expected)}"
        )
    if 0 not in updates and 0 in indices:
        raise InvalidArgumentError(
            f"Updates of shape {shape_text(updates)} have elements, but indices of shape "
            f"{shape_text(indices)} are empty"
        )
    if 0 in shape and 0 not in indices:
        raise InvalidArgumentError(
            f"Indices of shape {shape_text(indices)} are given for the empty output shape "
            f"{shape_text(shape)}"
        )


def check_inplace(x: Shape, i: Shape, v: Shape) -> None:
    """Check that `v` has one row, shaped like those of `x`, per index in `i`.

    Raises:
        InvalidArgumentError: it does not.
    """
    if len(i) != 1:
        raise InvalidArgumentError(f"i must be a vector, got shape {shape_text(i)}")
    if not x or v[1:] != x[1:]:
        raise InvalidArgumentError(
            f"rows of shape {shape_text(v)} do not fit x of shape {shape_text(x)}"
        )
    if v[:1] != i:
        raise InvalidArgumentError(
            f"i and v do not match in size: {shape_text(i)} and {shape_text(v)}"
        )


def index_maker(
    begin_mask: int, end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int
) -> IndexMaker:
    """Return a function from shape, begin, end and strides to a NumPy index.

    Raises:
        InvalidArgumentError: there are two ellipses. The returned function raises it if a slice
            does not fit the shape.
    """
    dots = ellipsis_mask & 0xFFFFFFFF  # as 32 unsigned bits: the attr may be negative
    if dots & (dots - 1):
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")

    def make(shape: tuple[int, ...], begin: Value, end: Value, strides: Value) -> Index:
        if not begin.shape == end.shape == strides.shape or begin.ndim != 1:
            raise InvalidArgumentError(
                "Expected begin, end, and strides to be 1D equal size tensors, but got shapes "
                f"{shape_text(begin.shape)}, {shape_text(end.shape)}, and "
                f"{shape_text(strides.shape)} instead."
            )
        count, rank = begin.shape[0], len(shape)
        if count > MAX_AXES:
            check_axis_count(begin, "begin")
        index: list[Any] = []
        axis = 0
        spec = zip(begin.tolist(), end.tolist(), strides.tolist(), strict=True)
        for position, (start, stop, step) in enumerate(spec):
            bit = 1 << position
            if ellipsis_mask & bit:
                index.append(...)
                # New axes after the ellipsis consume no dimension of the input.
                new_after = ((new_axis_mask >> (position + 1)) & ((1 << count) - 1)).bit_count()
                axis = max(axis, rank - (count - position - 1 - new_after))
            elif new_axis_mask & bit:
                index.append(None)
            else:
                if axis >= rank:
                    raise InvalidArgumentError(
                        f"Index out of range using input dim {axis}; input has only {rank} dims"
                    )
                size = shape[axis]
                if shrink_axis_mask & bit:
                    index.append(_checked_point(start, step, size, position))
                elif step == 0:
                    raise InvalidArgumentError(f"strides[{position}] must be non-zero")
                else:
                    index.append(
                        slice(
                            None if begin_mask & bit else start,
                            None if end_mask & bit else stop,
                            step,
                        )
                    )
                axis += 1
        return tuple(index)

    return make


def _checked_point(start: int, step: int, size: int, position: int) -> int:
    if step <= 0:
        raise InvalidArgumentError(
            f"only stride 1 allowed on non-range indexing, strides[{position}] is {step}"
        )
    if not -size <= start < size:
        raise InvalidArgumentError(f"slice index {start} of dimension {position} out of bounds.")
    return start


def check_slice_shape(actual: Shape, expected: Shape) -> None:
    """Raise InvalidArgumentError unless a gradient has the shape of its slice."""
    if actual != expected:
        raise InvalidArgumentError(
            f"shape of dy was {shape_text(actual)} instead of {shape_text(expected)}"
        )
