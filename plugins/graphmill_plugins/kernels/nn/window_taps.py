"""Read windows tap by tap, over any array namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.nn.window import Axis


class Tap(NamedTuple):
    """One tap of all windows of a channels-last tensor.

    Attributes:
        position: its position in the window along each axis.
        slices: the slices of the padded input that it reads.
        value: the elements that it reads.
        is_inside: whether it reads unpadded input, for each window, with a last axis of size 1
            for the channels; None if that is true of all windows.
    """

    position: tuple[int, ...]
    slices: tuple[slice, ...]
    value: Value
    is_inside: Any


def taps_of(xp: ArrayNamespace, x: Value, axes: Sequence[Axis]) -> Iterator[Tap]:
    """Yield the taps of windows in row-major order; outside of the input they read zeros."""
    padded = padded_input(xp, x, axes)
    for index in cancellable(np.ndindex(*(axis.kernel for axis in axes)), 1):
        slices = (slice(None), *(axis.taps(tap) for axis, tap in zip(axes, index, strict=True)))
        yield Tap(index, slices, padded[slices], _is_inside(axes, index))


def padded_input(xp: ArrayNamespace, x: Value, axes: Sequence[Axis]) -> Value:
    """Return the input with the zeros that the windows read around it.

    Raises:
        ResourceExhaustedError: dilations make it larger than the memory budget.
    """
    pads = [(axis.before, max(axis.after, _reach(axis) - axis.size - axis.before)) for axis in axes]
    if not any(map(any, pads)):
        return x
    sizes = (axis.size + before + after for axis, (before, after) in zip(axes, pads, strict=True))
    check_size((x.shape[0], *sizes, x.shape[-1]), "the padded input", itemsize=x.dtype.itemsize)
    return xp.pad(x, [(0, 0), *pads, (0, 0)])


def _reach(axis: Axis) -> int:
    return (axis.out - 1) * axis.stride + axis.span if axis.out else 0


def input_positions(axis: Axis, tap: int) -> Any:
    """Return the input positions of each window's tap, which may be out of range."""
    return np.arange(axis.out) * axis.stride + tap * axis.dilation - axis.before


def _is_inside(axes: Sequence[Axis], index: Sequence[int]) -> Any:
    inside = np.ones((), bool)
    for axis, tap in zip(axes, index, strict=True):
        positions = input_positions(axis, tap)
        inside = inside[..., None] & ((positions >= 0) & (positions < axis.size))
    return None if inside.all() else inside[..., None]


def spread(xp: ArrayNamespace, like: Value, axes: Sequence[Axis], parts: Any) -> Value:
    """Add `parts`, pairs of (slices of the padded input, values), to zeros shaped like `like`."""
    total = padded_input(xp, xp.zeros(like.shape, like.dtype), axes)
    for slices, values in parts:
        if xp is np:
            total[slices] += values
        else:
            total = total.at[slices].add(values)
    cuts = (slice(axis.before, axis.before + axis.size) for axis in axes)
    return total[(slice(None), *cuts)]
