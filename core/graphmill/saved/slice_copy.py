"""Assemble a slice of a tensor from stored pieces."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.memory import aligned_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from graphmill.saved.tensor_slice import TensorSlice

    Bounds: TypeAlias = tuple[tuple[int, int], ...]


def assemble(
    name: str,
    full_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    part: TensorSlice,
    pieces: Iterable[TensorSlice],
    read: Callable[[TensorSlice], np.ndarray[Any, Any]],
) -> np.ndarray[Any, Any]:
    """Return slice `part` of tensor `name`, copied from the pieces that overlap it.

    Args:
        name: the tensor's name, for messages.
        full_shape: shape of the whole tensor.
        dtype: its element type.
        part: the slice to return.
        pieces: the stored slices; they must not overlap each other.
        read: returns the values of a stored slice.

    Raises:
        InvalidArgumentError: the pieces do not cover the slice, or overlap.
    """
    target = part.bounds(full_shape)
    bounds = {piece: piece.bounds(full_shape) for piece in pieces}
    common = {piece: _intersection(source, target) for piece, source in bounds.items()}
    used = [piece for piece, shared in common.items() if _count(shared)]
    # Check before allocating: a damaged shape may be larger than memory.
    if sum(_count(common[piece]) for piece in used) < _count(target):
        raise InvalidArgumentError(
            f"Does not have sufficient slices for partitioned tensor {name} to restore in "
            f"slice_spec: {part}"
        )
    if _overlap([bounds[piece] for piece in used], len(target)):
        raise InvalidArgumentError(f"Overlapping slices are stored for tensor {name}")
    result = None
    for piece in used:
        values = read(piece)
        if bounds[piece] == target:
            return values
        if result is None:
            result = aligned_empty(part.shape(full_shape), dtype)
        result[_within(common[piece], target)] = values[_within(common[piece], bounds[piece])]
    return aligned_empty(part.shape(full_shape), dtype) if result is None else result


def _count(bounds: Bounds) -> int:
    return math.prod(stop - start for start, stop in bounds)


def _overlap(bounds: list[Bounds], rank: int) -> bool:
    """Return whether any two of the pieces overlap."""
    corners = np.array(bounds, np.int64).reshape(len(bounds), rank, 2)
    starts, stops = corners[:, :, 0], corners[:, :, 1]
    return any(
        bool(((starts[n + 1 :] < stops[n]) & (stops[n + 1 :] > starts[n])).all(1).any())
        for n in range(len(bounds) - 1)
    )


def _intersection(left: Bounds, right: Bounds) -> Bounds:
    pairs = zip(left, right, strict=True)
    return tuple((max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs)


def _within(part: Bounds, whole: Bounds) -> tuple[slice, ...]:
    """Return the index of `part` in an array that holds `whole`."""
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, whole, strict=True))
