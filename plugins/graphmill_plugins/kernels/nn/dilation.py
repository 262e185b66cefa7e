"""Dilation2D, the maximum of image plus shifted filter, and its gradients.

Semantics: tensorflow/core/kernels/dilation_ops.cc. Of equal taps, the first one gets the gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.pool.plan import lowest
from graphmill_plugins.kernels.nn.window import Axis, make_axis
from graphmill_plugins.kernels.nn.window_taps import spread, taps_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": dtypes.REAL}


def _axes(
    x: Value, kernel_: Value, strides: Sequence[int], rates: Sequence[int], padding: str
) -> tuple[Axis, Axis]:
    """Compute the windows along height and width.

    Raises:
        InvalidArgumentError: strides or rates apply to batch or channels, or shapes do not fit.
    """
    for name, values in (("strides", strides), ("rates", rates)):
        if len(values) != 4 or values[0] != 1 or values[3] != 1 or min(values) < 1:
            raise InvalidArgumentError(
                f"{name} must be [1, height, width, 1] with positive sizes, got {list(values)}: "
                "strides and rates over the batch and depth are not supported"
            )
    if x.ndim != 4 or kernel_.ndim != 3 or x.shape[3] != kernel_.shape[2]:
        raise InvalidArgumentError(
            "input must be (batch, height, width, depth) and filter (height, width, depth), got "
            f"{shape_text(x.shape)} and {shape_text(kernel_.shape)}"
        )
    height, width = (
        make_axis(x.shape[axis], kernel_.shape[axis - 1], strides[axis], rates[axis], padding)
        for axis in (1, 2)
    )
    return height, width


def _best(xp: ArrayNamespace, x: Value, kernel_: Value, axes: Sequence[Axis]) -> tuple[Any, Any]:
    """Return the largest sum of each window, and the index of the first tap with that sum."""
    shape = (x.shape[0], *(axis.out for axis in axes), x.shape[3])
    best = xp.full(shape, lowest(x.dtype), x.dtype)
    best_tap = xp.zeros(shape, np.int32)
    # A window of no channels may have any number of taps.
    for index, tap in enumerate(taps_of(xp, x, axes) if best.size else ()):
        value = tap.value + kernel_[tap.position]
        is_better = value > best
        if tap.is_inside is not None:
            is_better = is_better & tap.is_inside
        best = xp.where(is_better, value, best)
        best_tap = xp.where(is_better, np.int32(index), best_tap)
    return best, best_tap


def _check_gradient(x: Value, axes: Sequence[Axis], gradient: Value) -> None:
    expected = (x.shape[0], *(axis.out for axis in axes), x.shape[3])
    if tuple(gradient.shape) != expected:
        raise InvalidArgumentError(
            f"out_backprop must have shape {shape_text(expected)}, got {shape_text(gradient.shape)}"
        )


@kernel("Dilation2D", types=_TYPES, expensive=True)
def dilation_2d(
    xp: ArrayNamespace,
    x: Value,
    kernel_: Value,
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
) -> Value:
    """Return the largest sum of an input and a filter's element in each window."""
    return _best(xp, x, kernel_, _axes(x, kernel_, strides, rates, padding))[0]


@kernel("Dilation2DBackpropInput", types=_TYPES, expensive=True)
def dilation_2d_backprop_input(
    xp: ArrayNamespace,
    x: Value,
    kernel_: Value,
    gradient: Value,
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
) -> Value:
    """Add each gradient to the input element of the largest sum."""
    axes = _axes(x, kernel_, strides, rates, padding)
    _check_gradient(x, axes, gradient)
    if not gradient.size:
        return xp.zeros_like(x)
    _, best_tap = _best(xp, x, kernel_, axes)
    zero = gradient.dtype.type(0)
    parts = (
        (tap.slices, xp.where(best_tap == index, gradient, zero))
        for index, tap in enumerate(taps_of(xp, x, axes))
    )
    return spread(xp, x, axes, parts)


@kernel("Dilation2DBackpropFilter", types=_TYPES, expensive=True)
def dilation_2d_backprop_filter(
    xp: ArrayNamespace,
    x: Value,
    kernel_: Value,
    gradient: Value,
    strides: tuple[int, ...],
    rates: tuple[int, ...],
    padding: str,
) -> Value:
    """Add each gradient to the filter element of the largest sum."""
    axes = _axes(x, kernel_, strides, rates, padding)
    _check_gradient(x, axes, gradient)
    if not gradient.size:
        return xp.zeros_like(kernel_)
    _, best_tap = _best(xp, x, kernel_, axes)
    zero = gradient.dtype.type(0)
    count = kernel_.shape[0] * kernel_.shape[1]
    sums = [
        xp.where(best_tap == tap, gradient, zero).sum(axis=(0, 1, 2), dtype=gradient.dtype)
        for tap in range(count)
    ]
    return xp.stack(sums).reshape(kernel_.shape)
