"""Padding with constants or mirrored elements, and the gradient of MirrorPad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, is_numpy, is_string, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Value

    Paddings = Sequence[Sequence[int]]


def checked_paddings(paddings: Value, rank: int) -> list[list[int]]:
    """Return paddings as pairs of integers, one for each dimension.

    Raises:
        InvalidArgumentError: the shape is not [rank, 2], or a padding is negative.
    """
    if paddings.shape != (rank, 2):
        raise InvalidArgumentError(
            f"paddings must be a matrix with 2 columns and one row for each of {rank} dimensions, "
            f"got shape {shape_text(paddings.shape)}"
        )
    pairs: list[list[int]] = paddings.tolist()
    if any(size < 0 for pair in pairs for size in pair):
        raise InvalidArgumentError(f"Paddings must be non-negative: {pairs}")
    return pairs


def pad_constant(xp: ArrayNamespace, x: Value, paddings: Paddings, value: Any) -> Value:
    """Pad `x` with a constant."""
    if not x.ndim:
        return x
    sizes = [before + n + after for n, (before, after) in zip(x.shape, paddings, strict=True)]
    check_size(sizes, itemsize=x.dtype.itemsize)
    if not is_numpy(xp):
        return xp.pad(x, paddings, constant_values=value)
    # np.pad takes tens of microseconds, even for small arrays.
    result = np.empty(sizes, x.dtype)
    result.fill(value)
    result[
        tuple(slice(before, before + n) for n, (before, _) in zip(x.shape, paddings, strict=True))
    ] = x
    return result


@kernel("Pad", static=("paddings",), make=True)
def pad(xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[[Value, Value], Value]:
    """Pad with zeros, or with empty strings."""
    zero = b"" if is_string(T) else T.type(0)
    return lambda x, paddings: pad_constant(xp, x, checked_paddings(paddings, x.ndim), zero)


@kernel("PadV2", static=("paddings",))
def pad_v2(xp: ArrayNamespace, x: Value, paddings: Value, constant_values: Value) -> Value:
    """Pad with a given scalar."""
    if constant_values.ndim:
        raise InvalidArgumentError(
            f"constant_values must be a scalar, got shape {shape_text(constant_values.shape)}"
        )
    if x.dtype.kind == "O":
        constant_values = constant_values[()]
    return pad_constant(xp, x, checked_paddings(paddings, x.ndim), constant_values)


@kernel("MirrorPad", static=("paddings",), make=True)
def mirror_pad(xp: ArrayNamespace, mode: str) -> Callable[[Value, Value], Value]:
    """Pad with a mirror image that includes (SYMMETRIC) or excludes (REFLECT) the edge."""

    def surround(x: Value, paddings: Value) -> Value:
        pairs = checked_paddings(paddings, x.ndim)
        sources = [
            mirrored_indices(size, pair, mode, axis)
            for axis, (size, pair) in enumerate(zip(x.shape, pairs, strict=True))
        ]
        sizes = [size + sum(pair) for size, pair in zip(x.shape, pairs, strict=True)]
        check_size(sizes, itemsize=x.dtype.itemsize)
        for axis, indices in enumerate(sources):
            if indices is not None:
                x = xp.take(x, indices, axis=axis)
        return x

    return surround


def mirrored_indices(size: int, pair: Sequence[int], mode: str, axis: int) -> Value | None:
    """Return the source index of each element of a padded dimension, None without padding.

    Args:
        size: the size of the dimension.
        pair: how many elements to add before and after it.
        mode: REFLECT excludes the edge from the mirror image, SYMMETRIC includes it.
        axis: the dimension, for the message.

    Raises:
        InvalidArgumentError: the dimension is too small for the padding.
    """
    before, after = pair
    if max(pair) > size - _edge(mode):
        raise InvalidArgumentError(
            f"paddings must be no greater than the dimension size less {_edge(mode)}: "
            f"{list(pair)} for dimension {axis} of size {size}"
        )
    if not before and not after:
        return None
    check_size((before + size + after,), "the padded dimension", itemsize=8)
    return _mirrored(size, before, after, mode)


def _edge(mode: str) -> int:
    return 1 if mode == "REFLECT" else 0


def _mirrored(size: int, before: int, after: int, mode: str) -> Value:
    """Return the source index of each element of a mirrored dimension."""
    indices = np.arange(-before, size + after)
    indices = np.where(indices < 0, _edge(mode) - 1 - indices, indices)
    last = size - 1
    return np.where(indices > last, 2 * last + 1 - _edge(mode) - indices, indices)


@kernel("MirrorPadGrad", static=("paddings",), make=True)
def mirror_pad_grad(xp: ArrayNamespace, mode: str) -> Callable[[Value, Value], Value]:
    """Add the borders of a gradient to the elements that they mirror."""

    def fold(dy: Value, paddings: Value) -> Value:
        for axis, (before, after) in enumerate(checked_paddings(paddings, dy.ndim)):
            if before or after:
                dy = _fold(xp, dy, axis, before, after, _edge(mode))
        return dy

    return fold


def _fold(xp: ArrayNamespace, dy: Value, axis: int, before: int, after: int, edge: int) -> Value:
    """Add the mirrored borders of an axis to its middle."""
    dy = xp.moveaxis(dy, axis, 0)
    size = dy.shape[0] - before - after
    if max(before, after) > size - edge:
        raise InvalidArgumentError(
            f"paddings {before} and {after} are too large for dimension {axis} of size {size}"
        )
    result = dy[before : before + size]
    rest = [(0, 0)] * (dy.ndim - 1)
    if before:
        padding = (edge, size - edge - before)
        result = result + pad_constant(xp, dy[:before][::-1], [padding, *rest], 0)
    if after:
        padding = (size - edge - after, edge)
        result = result + pad_constant(xp, dy[before + size :][::-1], [padding, *rest], 0)
    return xp.moveaxis(result, 0, axis)
