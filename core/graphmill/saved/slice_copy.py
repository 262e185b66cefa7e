"""Assemble a slice of a tensor from stored pieces."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.memory import aligned_empty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    import numpy as np

    from graphmill.saved.tensor_slice import TensorSlice

    Bounds: TypeAlias = tuple[tuple[int, int], ...]


def assemble(
    name: str,
    full_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    wanted: TensorSlice,
    pieces: Iterable[TensorSlice],
    read: Callable[[TensorSlice], np.ndarray[Any, Any]],
) -> np.ndarray[Any, Any]:
    """Return slice `wanted` of tensor `name`, copied from those pieces that it meets.

    Args:
        name: for messages.
        full_shape: shape of the whole tensor.
        dtype: its element type.
        wanted: the slice to return.
        pieces: the slices that are stored; they do not overlap.
        read: returns the values of a stored slice.

    Raises:
        InvalidArgumentError: the pieces do not cover the slice, or overlap.
    """
    target = wanted.bounds(full_shape)
    result = None
    missing = math.prod(stop - start for start, stop in target)
    for piece in pieces:
        source = piece.bounds(full_shape)
        common = _intersection(source, target)
        count = math.prod(stop - start for start, stop in common)
        if not count:
            continue
        values = read(piece)
        if source == target:
            return values
        if result is None:
            result = aligned_empty(wanted.shape(full_shape), dtype)
        result[_within(common, target)] = values[_within(common, source)]
        missing -= count
    if missing < 0:
        raise InvalidArgumentError(f"Overlapping slices are stored for tensor {name}")
    if missing:
        raise InvalidArgumentError(
            f"Does not have sufficient slices for partitioned tensor {name} to restore in "
            f"slice_spec: {wanted}"
        )
    return aligned_empty(wanted.shape(full_shape), dtype) if result is None else result


def _intersection(left: Bounds, right: Bounds) -> Bounds:
    pairs = zip(left, right, strict=True)
    return tuple((max(a, c), max(a, c, min(b, d))) for (a, b), (c, d) in pairs)


def _within(part: Bounds, whole: Bounds) -> tuple[slice, ...]:
    """Return what indexes `part` in an array that holds `whole`."""
    return tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(part, whole, strict=True))
