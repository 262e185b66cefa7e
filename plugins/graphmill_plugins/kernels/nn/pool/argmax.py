"""Max pooling that returns the position of the maximum, and second gradients.

Semantics: tensorflow/core/kernels/maxpooling_op.cc, pooling_ops_3d.cc. If elements
of a window are equal, the first one in row-major order is the maximum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.nn.pool.plan import PoolWindows, check_vector, pool_windows
from graphmill_plugins.kernels.nn.window_taps import input_positions, taps_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.nn.window import Axis

_TYPES = {"T": dtypes.REAL}


def _pixel_offsets(axes: Sequence[Axis], index: Sequence[int], channels: int) -> Any:
    """Return the pixel index of a tap in each window, multiplied by the number of channels."""
    rows, columns = (input_positions(axis, tap) for axis, tap in zip(axes, index, strict=True))
    return (rows[:, None] * axes[1].size + columns[None, :])[..., None] * channels


@kernel("MaxPoolWithArgmax", types=_TYPES, expensive=True)
def max_pool_with_argmax(
    xp: ArrayNamespace,
    x: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    include_batch_in_index: bool,
    Targmax: np.dtype[Any],
) -> tuple[Value, Value]:
    """Return the maximum of each window, and its index in the image (or the batch)."""
    pooling = pool_windows("MaxPoolWithArgmax", ksize, strides, padding, "NHWC")
    pooling.windows.check_rank(x.shape, "tensor_in")
    if not x.size:
        raise InvalidArgumentError(f"tensor_in must not be empty, got {shape_text(x.shape)}")
    plan = pooling.plan(x.shape)
    batch, height, width, channels = x.shape
    best = xp.zeros(plan.out, x.dtype)
    index = xp.full(plan.out, np.int64(-1))
    for tap in taps_of(xp, x, plan.axes):
        is_better = (best < tap.value) | (index < 0)
        if tap.is_inside is not None:
            is_better = is_better & tap.is_inside
        best = xp.where(is_better, tap.value, best)
        index = xp.where(is_better, _pixel_offsets(plan.axes, tap.position, channels), index)
    index = index + np.arange(channels)
    if include_batch_in_index:
        index = index + (np.arange(batch) * (height * width * channels))[:, None, None, None]
    return best, index.astype(Targmax)


@kernel("MaxPoolGradWithArgmax", types=_TYPES, expensive=True)
def max_pool_grad_with_argmax(
    xp: ArrayNamespace,
    x: Value,
    gradient: Value,
    argmax: Value,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    include_batch_in_index: bool,
) -> Value:
    """Add each gradient to the element at the given index.

    An index out of range raises InvalidArgumentError; a compiled program drops its gradient.
    """
    pooling = pool_windows("MaxPoolGradWithArgmax", ksize, strides, padding, "NHWC")
    pooling.gradient_plan(x.shape, gradient.shape, argmax.shape)
    indices = argmax.astype(np.int64)
    image = x.size // len(x) if len(x) else 0
    start = (np.arange(len(x)) * image)[:, None, None, None]
    if not include_batch_in_index:
        indices = indices + start
    is_within = (indices >= start) & (indices < start + image)
    if xp is np:
        if not is_within.all():
            raise InvalidArgumentError(
                f"argmax has indices outside of images of shape {shape_text(x.shape[1:])}"
            )
        out = np.zeros(x.size, x.dtype)
        np.add.at(out, indices.reshape(-1), gradient.reshape(-1))
        return out.reshape(x.shape)
    indices = xp.where(is_within, indices, x.size).reshape(-1)
    zeros = xp.zeros(x.size, x.dtype)
    return zeros.at[indices].add(gradient.reshape(-1), mode="drop").reshape(x.shape)


def _second_order(pooling: PoolWindows, xp: ArrayNamespace) -> Callable[..., Value]:
    """Return the function that gathers the input's gradient at the maxima."""
    windows = pooling.windows

    def run(x: Value, out: Value, gradient: Value) -> Value:
        if not x.size and x.ndim == 5:  # TensorFlow checks this only for volumes
            raise InvalidArgumentError(f"received empty tensor_in of shape {shape_text(x.shape)}")
        axes = pooling.gradient_plan(x.shape, out.shape).axes
        x, out, gradient = (windows.to_channels_last(xp, value) for value in (x, out, gradient))
        if gradient.shape != x.shape:
            raise InvalidArgumentError(
                f"expected grad shape to be {shape_text(x.shape)}, but got "
                f"{shape_text(gradient.shape)}"
            )
        result = xp.zeros(out.shape, x.dtype)
        is_pending: Any = np.ones(out.shape, bool)
        for tap, second in zip(taps_of(xp, x, axes), taps_of(xp, gradient, axes), strict=True):
            is_hit = is_pending & (tap.value == out)
            if tap.is_inside is not None:
                is_hit = is_hit & tap.is_inside
            result = xp.where(is_hit, second.value, result)
            is_pending = is_pending & ~is_hit
        return windows.from_channels_last(xp, result)

    return run


@kernel("MaxPoolGradGrad", types=_TYPES, make=True, expensive=True)
def max_pool_grad_grad(
    xp: ArrayNamespace,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[..., Value]:
    """Return the gradient of MaxPoolGrad's gradients."""
    return _second_order(pool_windows("MaxPoolGradGrad", ksize, strides, padding, data_format), xp)


@kernel("MaxPoolGradGradV2", types=_TYPES, static=("ksize", "strides"), expensive=True)
def max_pool_grad_grad_v2(
    xp: ArrayNamespace,
    x: Value,
    out: Value,
    gradient: Value,
    ksize: Value,
    strides: Value,
    padding: str,
    data_format: str,
) -> Value:
    """Return the gradient of MaxPoolGradV2's gradients."""
    sizes = check_vector("ksize", ksize), check_vector("strides", strides)
    windows = pool_windows("MaxPoolGradGradV2", *sizes, padding, data_format)
    return _second_order(windows, xp)(x, out, gradient)


@kernel("MaxPool3DGradGrad", types=_TYPES, make=True, expensive=True)
def max_pool_3d_grad_grad(
    xp: ArrayNamespace,
    ksize: tuple[int, ...],
    strides: tuple[int, ...],
    padding: str,
    data_format: str,
) -> Callable[..., Value]:
    """Return the gradient of MaxPool3DGrad's gradients."""
    windows = pool_windows("MaxPool3DGradGrad", ksize, strides, padding, data_format, rank=5)
    return _second_order(windows, xp)
