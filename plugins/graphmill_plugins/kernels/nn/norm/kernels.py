"""Normalization kernels: FusedBatchNorm V1 to V3, LRN, BiasAdd.

Semantics: tensorflow/core/kernels/fused_batch_norm_op.cc, lrn_op.cc, bias_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import side_by_side, widen
from graphmill_plugins.kernels.nn.window import is_channels_first

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

BATCH_NORM_TYPES = {"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)}
_LONG_LOOP = 1024  # elements


class BatchNormSpec(NamedTuple):
    """The attrs of a batch-norm node."""

    op: str
    channels_first: bool
    epsilon: float
    average_factor: float
    is_training: bool

    def per_channel(self, vector: Value, rank: int) -> Value:
        """Return a vector over the channels, shaped to broadcast over the input."""
        return vector.reshape(-1, *(1,) * (rank - 2)) if self.channels_first else vector

    def check(self, x: Value, *vectors: Value) -> None:
        """Check ranks and channel counts of the inputs.

        Raises:
            InvalidArgumentError: `x` is not of rank 4 or 5, or a vector does not fit it.
        """
        if x.ndim not in (4, 5):
            raise errors.InvalidArgumentError(
                f"input must be 4 or 5-dimensional, got shape {list(x.shape)}"
            )
        channels = x.shape[1 if self.channels_first else -1]
        for name, vector in zip(("scale", "offset", "mean", "variance"), vectors, strict=False):
            if vector.ndim != 1:
                raise errors.InvalidArgumentError(
                    f"{name} must be 1-dimensional, got shape {list(vector.shape)}"
                )
            may_be_empty = name in ("mean", "variance") and self.is_training
            if vector.shape[0] != channels and not (may_be_empty and vector.shape[0] == 0):
                raise errors.InvalidArgumentError(
                    f"{name} must have the same number of elements as the channels of x, "
                    f"got {vector.shape[0]} and {channels}"
                )


def _normalize(
    xp: ArrayNamespace,
    spec: BatchNormSpec,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
) -> Value:
    """Compute scale * (x - mean) / sqrt(variance + epsilon) + offset by one scale and shift."""
    factor = scale / xp.sqrt(variance + np.float32(spec.epsilon))
    shift = spec.per_channel(offset - mean * factor, x.ndim)
    factor = spec.per_channel(factor, x.ndim)
    wide = x.astype(np.float32) if x.dtype != np.float32 else x
    if xp is not np:
        return (wide * factor + shift).astype(x.dtype)
    out = _scale_and_shift(wide, factor, shift)
    return out.astype(x.dtype, copy=False)


def _scale_and_shift(x: Value, factor: Value, shift: Value) -> Value:
    """Return x * factor + shift in one fresh buffer (NumPy)."""
    width = x.shape[-2] if x.ndim > 1 else 1
    if factor.ndim == 1 and width > 1 and x.flags.c_contiguous and x.size:
        # Channels last: repeat the vectors over a row of pixels, for a longer inner loop.
        rows = x.reshape(-1, width * x.shape[-1])
        out = np.multiply(rows, side_by_side(factor, width))
        np.add(out, side_by_side(shift, width), out=out)
        return out.reshape(x.shape)
    out = np.multiply(x, factor)
    return np.add(out, shift, out=out)


def _moments(xp: ArrayNamespace, spec: BatchNormSpec, x: Value) -> tuple[Value, Value, int]:
    """Return mean, biased variance and count over all axes but the channels, in float32."""
    channel = 1 if spec.channels_first else x.ndim - 1
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)
    wide = x.astype(np.float32) if x.dtype != np.float32 else x
    count = x.size // x.shape[channel] if x.size else 0
    if xp is np and channel == x.ndim - 1 and count:
        return _numpy_moments(wide)
    mean = xp.mean(wide, axis=axes)
    centred = wide - spec.per_channel(mean, x.ndim)
    return mean, xp.mean(centred * centred, axis=axes), count


class Columns:
    """A NumPy matrix whose columns are the channels, laid out for long inner loops.

    With few channels, a row of the matrix holds several pixels, and vectors are repeated to match.
    """

    def __init__(self, x: Value) -> None:
        self.width = x.shape[-1]
        self.count = x.size // self.width
        sizes = (n for n in (16, 8, 4, 2) if n * self.width <= _LONG_LOOP and self.count % n == 0)
        self.pixels_per_row = next(sizes, 1)
        self.rows = self.lay_out(x)

    def lay_out(self, x: Value) -> Value:
        """Return another array of the same shape in the same layout."""
        return x.reshape(-1, self.pixels_per_row * self.width)

    def repeat(self, vector: Value) -> Value:
        """Repeat a vector of channels to the length of a row."""
        return side_by_side(vector, self.pixels_per_row)

    def sums(self, rows: Value) -> Value:
        """Return the sum of each channel."""
        return rows.sum(axis=0).reshape(self.pixels_per_row, self.width).sum(axis=0)


def _numpy_moments(x: Value) -> tuple[Value, Value, int]:
    columns = Columns(x)
    factor = np.float32(1 / columns.count)
    mean = columns.sums(columns.rows) * factor
    centred = columns.rows - columns.repeat(mean)
    np.multiply(centred, centred, out=centred)
    return mean, columns.sums(centred) * factor, columns.count


def batch_norm(
    xp: ArrayNamespace,
    spec: BatchNormSpec,
    x: Value,
    scale: Value,
    offset: Value,
    mean: Value,
    variance: Value,
) -> tuple[Value, ...]:
    """Return (y, batch_mean, batch_variance, reserve_space_1, reserve_space_2)."""
    spec.check(x, scale, offset, mean, variance)
    if x.size == 0:
        undefined = xp.full(scale.shape, np.nan, np.float32)
        return x, undefined, undefined, undefined, undefined
    if not spec.is_training:
        y = _normalize(xp, spec, x, scale, offset, mean, variance)
        return y, mean, variance, mean, variance
    batch_mean, biased, count = _moments(xp, spec, x)
    # The running variance is corrected for the sample (Bessel); the saved one is not.
    unbiased = biased * np.float32(count / max(count - 1, 1))
    y = _normalize(xp, spec, x, scale, offset, batch_mean, biased)
    if spec.average_factor == 1.0:
        return y, batch_mean, unbiased, batch_mean, biased
    new, old = np.float32(spec.average_factor), np.float32(1 - spec.average_factor)
    return y, old * mean + new * batch_mean, old * variance + new * unbiased, batch_mean, biased


@kernel("FusedBatchNorm", "FusedBatchNormV2", make=True, types=BATCH_NORM_TYPES)
def fused_batch_norm(
    xp: ArrayNamespace,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: str,
    is_training: bool,
) -> Callable[..., tuple[Value, ...]]:
    """Normalize each channel by the moments of the batch (training) or of the inputs."""
    spec = BatchNormSpec(
        "FusedBatchNorm",
        is_channels_first("FusedBatchNorm", data_format),
        epsilon,
        exponential_avg_factor,
        is_training,
    )
    return lambda *inputs: batch_norm(xp, spec, *inputs)


@kernel("FusedBatchNormV3", make=True, types=BATCH_NORM_TYPES)
def fused_batch_norm_v3(
    xp: ArrayNamespace,
    epsilon: float,
    exponential_avg_factor: float,
    data_format: str,
    is_training: bool,
) -> Callable[..., tuple[Value, ...]]:
    """Normalize as V2 does; the third reserve space is only for GPU libraries."""
    run = fused_batch_norm(xp, epsilon, exponential_avg_factor, data_format, is_training)
    reserve = np.float32(0)
    return lambda *inputs: (*run(*inputs), reserve)


@kernel("BiasAdd", make=True, types={"T": dtypes.NUMERIC})
def bias_add(xp: ArrayNamespace, data_format: str) -> Callable[[Value, Value], Value]:
    """Add a vector over the channels: the last axis, or axis 1 for NCHW."""
    channels_first = is_channels_first("BiasAdd", data_format)

    def run(value: Value, bias: Value) -> Value:
        axis = 1 if channels_first and value.ndim > 2 else value.ndim - 1
        if value.ndim < 2 or bias.ndim != 1 or value.shape[axis] != bias.shape[0]:
            raise errors.InvalidArgumentError(_bias_mismatch(value, bias, axis))
        if axis != value.ndim - 1:
            bias = bias.reshape(-1, *(1,) * (value.ndim - 1 - axis))
        return xp.add(value, bias)

    return run


def _bias_mismatch(value: Value, bias: Value, axis: int) -> str:
    if value.ndim < 2:
        return f"Input tensor must be at least 2D: {list(value.shape)}"
    if bias.ndim != 1:
        return f"Biases must be 1D: {list(bias.shape)}"
    return (
        f"Must provide as many biases as the last dimension of the input tensor: "
        f"{list(bias.shape)} vs. {list(value.shape)} (axis {axis})"
    )


@kernel("BiasAddV1", types={"T": dtypes.NUMERIC})
def bias_add_v1(xp: ArrayNamespace, value: Value, bias: Value) -> Value:
    """Add a vector over the last axis."""
    return bias_add(xp, "NHWC")(value, bias)


@kernel("LRN", types={"T": (dtypes.float16, dtypes.bfloat16, dtypes.float32)})
def local_response_normalization(
    xp: ArrayNamespace, x: Value, depth_radius: int, bias: float, alpha: float, beta: float
) -> Value:
    """Divide by (bias + alpha * sum of squares over 2 * depth_radius + 1 channels) ** beta."""
    if x.ndim != 4:
        raise errors.InvalidArgumentError(f"in must be 4-dimensional, got {list(x.shape)}")
    wide = x.astype(widen(x.dtype))
    total = channel_window_sum(xp, wide * wide, depth_radius)
    norm: Any = np.float32(bias) + np.float32(alpha) * total
    return divide_by_power(xp, wide, norm, beta).astype(x.dtype)


def divide_by_power(xp: ArrayNamespace, value: Value, base: Value, exponent: float) -> Value:
    """Return `value / base ** exponent`.

    A power is an exponential of a logarithm, which takes four times as long as a root. The
    exponents below are those that networks have.
    """
    if exponent == 1:
        return value / base
    if exponent not in (0.5, 0.75):
        return value * xp.power(base, np.float32(-exponent))
    root = xp.sqrt(base)
    return value / (root if exponent == 0.5 else root * xp.sqrt(root))


def channel_window_sum(xp: ArrayNamespace, x: Value, radius: int) -> Value:
    """Return, for each channel, the sum over all channels at a distance of at most `radius`."""
    depth = x.shape[-1]
    radius = min(radius, max(depth - 1, 0))  # there are no channels farther away
    padded = xp.pad(x, ((0, 0),) * (x.ndim - 1) + ((radius, radius),))
    total = padded[..., :depth]
    for shift in cancellable(range(1, 2 * radius + 1), 1):
        total = total + padded[..., shift : shift + depth]
    return total
