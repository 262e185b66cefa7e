"""Gradient kernels of normalizations, over any array namespace: FusedBatchNormGrad, LRNGrad.

Semantics: tensorflow/core/kernels/fused_batch_norm_op.cc, lrn_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.norm.kernels import (
    BatchNormSpec,
    Columns,
    channel_window_sum,
    divide_by_power,
)
from graphmill_plugins.kernels.nn.window import is_channels_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)}


def batch_norm_gradient(
    xp: ArrayNamespace,
    spec: BatchNormSpec,
    gradient: Value,
    x: Value,
    scale: Value,
    mean: Value,
    variance: Value,
) -> tuple[Value, ...]:
    """Return the gradients of x, scale and offset."""
    if gradient.shape != x.shape:
        raise errors.InvalidArgumentError(
            f"x and y_backprop must have same shape, but x has shape {list(x.shape)} and "
            f"y_backprop has shape {list(gradient.shape)}"
        )
    spec.check(x, scale)
    for name, vector in (("reserve_space_1", mean), ("reserve_space_2", variance)):
        if vector.shape != scale.shape:
            raise errors.InvalidArgumentError(
                f"{name} must be 1-dimensional and have the same number of elements as scale, got "
                f"shapes {list(vector.shape)} and {list(scale.shape)}"
            )
    if xp is np and x.size and x.dtype == np.float32 and not spec.channels_first:
        return _numpy_gradient(spec, gradient, x, scale, mean, variance)
    channel = 1 if spec.channels_first else x.ndim - 1
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)

    def spread(vector: Value) -> Value:
        return spec.per_channel(vector, x.ndim)

    wide = gradient.astype(np.float32)
    inverse = np.float32(1) / xp.sqrt(variance + np.float32(spec.epsilon))
    normal = (x.astype(np.float32) - spread(mean)) * spread(inverse)
    offset_gradient = xp.sum(wide, axis=axes)
    scale_gradient = xp.sum(wide * normal, axis=axes)
    if spec.is_training and x.size:
        count = np.float32(x.size // x.shape[channel])
        wide = wide - spread(offset_gradient / count) - normal * spread(scale_gradient / count)
    x_gradient = wide * spread(scale * inverse)
    return x_gradient.astype(x.dtype), scale_gradient, offset_gradient


def _numpy_gradient(
    spec: BatchNormSpec, gradient: Value, x: Value, scale: Value, mean: Value, variance: Value
) -> tuple[Value, ...]:
    """Return the gradients for channels-last float32 arrays, in few passes over memory."""
    columns = Columns(x)
    inverse = np.float32(1) / np.sqrt(variance + np.float32(spec.epsilon))
    slope = scale * inverse
    upstream = columns.lay_out(gradient)
    centred = columns.rows - columns.repeat(mean)
    out = upstream * centred
    scale_gradient, offset_gradient = columns.sums(out) * inverse, columns.sums(upstream)
    np.multiply(upstream, columns.repeat(slope), out=out)
    if spec.is_training:
        share = slope * np.float32(-1 / columns.count)
        centred *= columns.repeat(share * inverse * scale_gradient)
        out += centred
        out += columns.repeat(share * offset_gradient)
    return out.reshape(x.shape), scale_gradient, offset_gradient


def _spec(op: str, epsilon: float, data_format: str, is_training: bool) -> BatchNormSpec:
    return BatchNormSpec(op, is_channels_first(op, data_format), epsilon, 1.0, is_training)


@kernel("FusedBatchNormGrad", "FusedBatchNormGradV2", make=True, types=_TYPES)
def fused_batch_norm_grad(
    xp: ArrayNamespace, epsilon: float, data_format: str, is_training: bool
) -> Callable[..., tuple[Value, ...]]:
    """Return the gradients of x, scale and offset, and two empty outputs."""
    spec = _spec("FusedBatchNormGrad", epsilon, data_format, is_training)
    empty = np.zeros((0,), np.float32)
    return lambda *inputs: (*batch_norm_gradient(xp, spec, *inputs), empty, empty)


@kernel("FusedBatchNormGradV3", make=True, types=_TYPES)
def fused_batch_norm_grad_v3(
    xp: ArrayNamespace, epsilon: float, data_format: str, is_training: bool
) -> Callable[..., tuple[Value, ...]]:
    """Return the results of V2; the third reserve space is ignored."""
    run = fused_batch_norm_grad(xp, epsilon, data_format, is_training)
    return lambda *inputs: run(*inputs[:5])


@kernel("LRNGrad", types={"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)})
def lrn_grad(
    xp: ArrayNamespace,
    gradient: Value,
    x: Value,
    out: Value,
    depth_radius: int,
    bias: float,
    alpha: float,
    beta: float,
) -> Value:
    """Return the gradient of local response normalization."""
    if x.ndim != 4 or not (x.shape == out.shape == gradient.shape):
        raise errors.InvalidArgumentError(
            "input_grads, input_image and output_image must be 4-dimensional and of one shape, "
            f"got {list(gradient.shape)}, {list(x.shape)} and {list(out.shape)}"
        )
    dtype, wide = x.dtype, widen(x.dtype)
    gradient, x, out = gradient.astype(wide), x.astype(wide), out.astype(wide)
    norm = np.float32(bias) + np.float32(alpha) * channel_window_sum(xp, x * x, depth_radius)
    direct = divide_by_power(xp, gradient, norm, beta)
    window_sum = channel_window_sum(xp, gradient * out / norm, depth_radius)
    return (direct - np.float32(2 * alpha * beta) * x * window_sum).astype(dtype)
