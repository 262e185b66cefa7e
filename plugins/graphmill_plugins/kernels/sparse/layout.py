"""Reorder, reshape, concatenate, split and slice sparse tensors, and fill empty rows.

Semantics: tensorflow/core/kernels/sparse_reorder_op.cc, reshape_util.cc, sparse_concat_op.cc,
sparse_split_op.cc, sparse_slice_op.cc, sparse_slice_grad_op.cc, sparse_fill_empty_rows_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InternalError, InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import (
    check_axis_count,
    check_size,
    checked_axis,
    object_array,
    shape_text,
)
from graphmill_plugins.kernels.sparse._sparse import (
    are_in_order,
    check_bounds,
    check_parts,
    checked_sizes,
    flat_positions,
    from_positions,
    lie_inside,
    order_of,
)

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("SparseReorder", host=True)
def sparse_reorder(indices: Value, values: Value, shape: Value) -> tuple[Value, Value]:
    """Sort the elements by index, stably."""
    check_bounds(indices, check_parts(indices, values, shape))
    if are_in_order(indices):
        return indices, values
    order = order_of(indices)
    return indices.take(order, axis=0), values.take(order)


def _reshaped_sizes(old: tuple[int, ...], new: list[int]) -> tuple[int, ...]:
    """Return the new sizes, with -1 replaced by the inferred size.

    Raises:
        InvalidArgumentError: two sizes are -1, a size is below -1, or the numbers of elements
            differ.
    """
    unknown = [axis for axis, size in enumerate(new) if size == -1]
    if len(unknown) > 1:
        raise InvalidArgumentError(
            f"only one output dimension may be -1, not both {unknown[0]} and {unknown[1]}"
        )
    if any(size < -1 for size in new):
        raise InvalidArgumentError(f"size {min(new)} must be non-negative, not {new}")
    total = math.prod(old)
    sizes = list(new)
    if unknown:
        known = math.prod(size for size in new if size != -1)
        if known <= 0:
            raise InvalidArgumentError(
                "reshape cannot infer the missing input size for an empty tensor unless all "
                "specified input sizes are non-zero"
            )
        if total % known:
            raise InvalidArgumentError(
                f"Input to reshape is a SparseTensor with {total} dense values, but the requested "
                f"shape requires a multiple of {known}. input_shape={list(old)} "
                f"output_shape={new}"
            )
        sizes[unknown[0]] = total // known
    if math.prod(sizes) != total:
        raise InvalidArgumentError(
            f"Input to reshape is a tensor with {total} dense values, but the requested shape has "
            f"{math.prod(sizes)}. input_shape={list(old)} output_shape={sizes}"
        )
    return tuple(sizes)


@kernel("SparseReshape", host=True)
def sparse_reshape(indices: Value, shape: Value, new_shape: Value) -> tuple[Value, Value]:
    """Convert the indices to those of another shape."""
    if indices.ndim != 2 or shape.ndim != 1 or new_shape.ndim != 1:
        raise InvalidArgumentError(
            "Input indices should be a matrix, input shape and new shape vectors, got shapes "
            f"{shape_text(indices.shape)}, {shape_text(shape.shape)}, {shape_text(new_shape.shape)}"
        )
    if indices.shape[1] != len(shape):
        raise InvalidArgumentError(
            f"Input tensor rank must match input shape length, got {indices.shape[1]} and "
            f"{len(shape)}"
        )
    old = checked_sizes(shape, "input shape")
    if not all(old) and len(indices):
        raise InvalidArgumentError(f"Input shape {shape_text(old)} is empty, but there are indices")
    check_axis_count(new_shape, "new shape")
    sizes = _reshaped_sizes(old, new_shape.tolist())
    out_shape = np.array(sizes, np.int64)
    if old == sizes:
        return indices, out_shape
    check_bounds(indices, old)
    return from_positions(flat_positions(indices, old), sizes), out_shape


@kernel("SparseConcat", host=True)
def sparse_concat(
    indices: list[Value],
    values: list[Value],
    shapes: list[Value],
    concat_dim: int,
) -> tuple[Value, Value, Value]:
    """Concatenate sparse tensors along an axis."""
    sizes = [check_parts(*parts) for parts in zip(indices, values, shapes, strict=True)]
    rank = len(sizes[0])
    axis = checked_axis(concat_dim, rank, "concat_dim")
    for index, other in enumerate(sizes):
        if len(other) != rank:
            raise InvalidArgumentError(
                f"Ranks of all input tensors must match: expected {rank} but got {len(other)} at "
                f"position {index}"
            )
        fits = all(
            a == b for d, (a, b) in enumerate(zip(other, sizes[0], strict=True)) if d != axis
        )
        if not fits:
            raise InvalidArgumentError(
                f"Input shapes must match except in axis {axis}: expected {list(sizes[0])}, got "
                f"{list(other)} at position {index}"
            )
    for part, size in zip(indices, sizes, strict=True):
        check_bounds(part, size)
    starts = np.cumsum([0, *(size[axis] for size in sizes)])
    moved = [part.copy() for part in indices]
    for part, start in zip(moved, starts[:-1].tolist(), strict=True):
        part[:, axis] += start
    joined, elements = np.concatenate(moved), np.concatenate(values)
    order = order_of(joined)
    out_shape = shapes[0].copy()
    out_shape[axis] = starts[-1]
    return joined[order], elements[order], out_shape


@kernel("SparseSplit", host=True)
def sparse_split(
    split_dim: Value,
    indices: Value,
    values: Value,
    shape: Value,
    num_split: int,
) -> tuple[list[Value], list[Value], list[Value]]:
    """Split a sparse tensor into `num_split` parts; the first ones take the remainder."""
    sizes = check_parts(indices, values, shape)
    if split_dim.size != 1:
        raise InvalidArgumentError(
            f"split_dim must be a scalar, got shape {shape_text(split_dim.shape)}"
        )
    axis = checked_axis(int(split_dim.reshape(-1)[0]), len(sizes), "split_dim")
    size = sizes[axis]
    if not 1 <= num_split <= size:
        raise InvalidArgumentError(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got "
            f"{num_split}"
        )
    check_bounds(indices, sizes)
    shortest, longer = divmod(size, num_split)
    lengths = [shortest + (part < longer) for part in range(num_split)]
    starts = np.cumsum([0, *lengths])
    owner = np.searchsorted(starts, indices[:, axis], side="right") - 1
    parts: tuple[list[Value], list[Value], list[Value]] = ([], [], [])
    for part, length in enumerate(lengths):
        chosen = owner == part
        moved, part_shape = indices[chosen], shape.copy()
        moved[:, axis] -= starts[part]
        part_shape[axis] = length
        for out, value in zip(parts, (moved, values[chosen], part_shape), strict=True):
            out.append(value)
    return parts


@kernel("SparseSlice", host=True)
def sparse_slice(
    indices: Value, values: Value, shape: Value, start: Value, size: Value
) -> tuple[Value, Value, Value]:
    """Return the elements within a window, with indices relative to its corner."""
    sizes = check_parts(indices, values, shape)
    for name, vector in (("start", start), ("size", size)):
        if vector.shape != shape.shape:
            raise InvalidArgumentError(
                f"Expected {name} to be a vector of length {len(sizes)}, got shape "
                f"{shape_text(vector.shape)}"
            )
    if (size < 0).any():
        raise InvalidArgumentError(f"size must be non-negative, got {size.tolist()}")
    # Python integers do not wrap around; a window may begin before the first element.
    starts = start.tolist()
    length = [
        max(min(requested, whole - first), 0)
        for requested, whole, first in zip(size.tolist(), sizes, starts, strict=True)
    ]
    inside = np.ones(len(indices), np.bool_)
    for column, low, count in zip(indices.T, starts, length, strict=True):
        inside &= column >= low  # column by column: reducing a short axis is slow
        inside &= column < low + count
    chosen = np.flatnonzero(inside)
    return indices.take(chosen, axis=0) - start, values.take(chosen), np.array(length, np.int64)


_LIST_BYTES: Final = 64
"""The least size of a list in Python, with the reference to it."""


@kernel("SparseSliceGrad", host=True)
def sparse_slice_grad(grad: Value, indices: Value, start: Value, output_indices: Value) -> Value:
    """Return the gradient of a slice's input values: zero outside of the slice."""
    if grad.ndim != 1 or indices.ndim != 2 or output_indices.ndim != 2 or start.ndim != 1:
        raise InvalidArgumentError(
            "expected a vector of gradients, two matrices of indices and a vector start, got "
            f"shapes {shape_text(grad.shape)}, {shape_text(indices.shape)}, "
            f"{shape_text(output_indices.shape)}, {shape_text(start.shape)}"
        )
    if indices.shape[1] != output_indices.shape[1] or indices.shape[1] != len(start):
        raise InvalidArgumentError(
            "The input and output should have the same ndims: got "
            f"{indices.shape[1]} and {output_indices.shape[1]}, start has {len(start)}"
        )
    if len(output_indices) > len(indices) or len(grad) != len(output_indices):
        raise InvalidArgumentError(
            f"# rows of output_indices ({len(output_indices)}) must be those of the gradient "
            f"({len(grad)}) and no more than those of input_indices ({len(indices)})"
        )
    used = 0
    check_size((len(indices),), "the lists of indices", itemsize=_LIST_BYTES)
    out = np.zeros(len(indices), grad.dtype)
    moved = cancellable((output_indices + start).tolist())
    positions = {tuple(row): position for position, row in enumerate(moved)}
    for row, index in enumerate(cancellable(indices.tolist())):
        position = positions.get(tuple(index))
        if position is not None:
            out[row] = grad[position]
            used += 1
    if used < len(grad):
        raise InternalError(
            "Elements of backprop_val_grad aren't all propagated. "
            f"Num elements:{len(grad)}, used: {used}"
        )
    return out


@kernel("SparseFillEmptyRows", host=True)
def sparse_fill_empty_rows(
    indices: Value, values: Value, shape: Value, default_value: Value
) -> tuple[Value, Value, Value, Value]:
    """Insert the default value into the first column of each empty row.

    Also returns a mask of the empty rows, and the new position of each input element.
    """
    sizes = check_parts(indices, values, shape)
    default_value = object_array(default_value) if values.dtype.kind == "O" else default_value
    if default_value.ndim:
        raise InvalidArgumentError(
            f"default_value must be a scalar, saw: {shape_text(default_value.shape)}"
        )
    if not sizes:
        raise InvalidArgumentError("Dense shape cannot be empty.")
    count = sizes[0]
    check_size((count, len(sizes) + 1), itemsize=8)  # indices and values of all rows
    rows = indices[:, 0]
    if not lie_inside(indices[:, :1], (count,)):
        first = int(np.argmax((rows < 0) | (rows >= count)))
        raise InvalidArgumentError(
            f"indices({first}, 0) is invalid: {rows[first]} is not in [0, {count})"
        )
    empty = np.ones(count, np.bool_)
    empty[rows] = False
    moved, added, filled = positions_with_empty_rows(rows, empty)
    if filled is None:
        return indices, values, empty, moved
    all_indices = np.zeros((len(rows) + len(added), len(sizes)), np.int64)
    all_indices[moved] = indices
    all_indices[filled, 0] = added
    all_values = np.full(len(all_indices), default_value, values.dtype)
    all_values[moved] = values
    return all_indices, all_values, empty, moved


def positions_with_empty_rows(rows: Value, empty: Value) -> tuple[Any, Any, Any]:
    """Return the positions of elements and fill values when sorted by row.

    The sort is stable.

    Args:
        rows: the row index of each element.
        empty: for each row, whether it has no element.

    Returns:
        the new position of each element, the empty rows, and the positions of their fill values.
        The last one is None if the elements are sorted and no row is empty.
    """
    positions = np.arange(len(rows), dtype=np.int64)
    added = empty.nonzero()[0]
    is_in_order = not (rows[1:] < rows[:-1]).any()
    if is_in_order and not len(added):
        return positions, added, None
    by_row = positions
    if not is_in_order:
        # NumPy's stable sort of 16-bit integers is a radix sort.
        by_row = np.argsort(rows.astype(np.int16) if len(empty) < 1 << 15 else rows, kind="stable")
        rows = rows[by_row]
    moved = positions + empty.cumsum()[rows]
    filled = rows.searchsorted(added) + np.arange(len(added))
    if is_in_order:
        return moved, added, filled
    original = np.empty_like(moved)
    original[by_row] = moved
    return original, added, filled


@kernel("SparseFillEmptyRowsGrad", host=True)
def fill_empty_rows_grad(reverse_index_map: Value, grad_values: Value) -> tuple[Value, Value]:
    """Return the gradients of the values and of the default."""
    if reverse_index_map.ndim != 1 or grad_values.ndim != 1:
        raise InvalidArgumentError(
            "reverse_index_map and grad_values must be vectors, saw: "
            f"{shape_text(reverse_index_map.shape)} and {shape_text(grad_values.shape)}"
        )
    count = len(grad_values)
    outside = (reverse_index_map < 0) | (reverse_index_map >= count)
    if outside.any():
        raise InvalidArgumentError(
            f"Elements in reverse index must be in [0, {count}) but got "
            f"{reverse_index_map[outside][0]}"
        )
    default = np.ones(count, np.bool_)
    default[reverse_index_map] = False
    total = grad_values[default].sum(dtype=grad_values.dtype)
    return grad_values[reverse_index_map], total
