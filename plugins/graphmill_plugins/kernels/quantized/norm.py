"""QuantizedInstanceNorm and QuantizedBatchNormWithGlobalNormalization.

Semantics: tensorflow/core/kernels/quantized_instance_norm.cc, quantized_batch_norm_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import (
    from_float,
    from_floats,
    limits,
    single,
    sole,
    to_float,
)
from graphmill_plugins.kernels._support import divided, shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged

_F = np.float32
_INT32 = np.dtype(np.int32)
_FAR = _F(1 << 20)
"""The upper end of the range of a batch norm's output: 10 of 32 bits are fractional."""


def _check_rank_4(name: str, x: Value) -> None:
    if x.ndim != 4:
        raise InvalidArgumentError(f"{name} must be 4-dimensional, got {shape_text(x.shape)}")


def _check_less(low_name: str, low: float, high_name: str, high: float) -> None:
    if not low < high:
        raise InvalidArgumentError(
            f"{low_name} must be less than {high_name}, got {low} and {high}"
        )


def _mean(xp: ArrayNamespace, x: Value) -> Value:
    """Return the mean of each channel of each image; 0 for images without pixels."""
    count = max(x.shape[1] * x.shape[2], 1)
    return divided(xp, x.sum(axis=(1, 2), keepdims=True), count)


@kernel("QuantizedInstanceNorm", types={"T": (dtypes.quint8,)})
def quantized_instance_norm(
    xp: ArrayNamespace,
    x: Value,
    x_min: Value,
    x_max: Value,
    output_range_given: bool,
    given_y_min: float,
    given_y_max: float,
    variance_epsilon: float,
    min_separation: float,
) -> Ranged:
    """Normalize each channel of each image to mean 0 and variance 1."""
    if output_range_given:
        _check_less("given_y_min", given_y_min, "given_y_max", given_y_max)
    low, high = sole("x_min", x_min), sole("x_max", x_max)
    if xp is np:
        _check_less("x_min", float(low), "x_max", float(high))
    _check_rank_4("x", x)
    step = (high - low) / _F(limits(x.dtype).highest)
    floats = x.astype(_F)
    moved = step * (floats - _mean(xp, floats))
    variance = _mean(xp, xp.square(moved))
    normed = moved * (_F(1) / xp.sqrt(variance + _F(variance_epsilon)))
    if output_range_given:
        new_low, new_high = xp.full_like(low, given_y_min), xp.full_like(low, given_y_max)
    else:
        new_low = xp.min(normed, initial=np.inf)
        new_high = xp.max(normed, initial=-np.inf)
    smallest_high = new_low + _F(min_separation)
    new_high = xp.where(new_high - new_low < _F(min_separation), smallest_high, new_high)
    return from_floats(xp, normed, new_low, new_high, x.dtype), new_low, new_high


@kernel(
    "QuantizedBatchNormWithGlobalNormalization",
    types={"Tinput": (dtypes.quint8,), "out_type": (dtypes.qint32,)},
)
def quantized_batch_norm(
    xp: ArrayNamespace,
    *inputs: Value,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Ranged:
    """Normalize with a mean and a variance for each channel, in fixed point."""
    x = inputs[0]
    _check_rank_4("t", x)
    for name, value in zip(("m", "v", "beta", "gamma"), inputs[3::3], strict=True):
        if value.shape != x.shape[-1:]:
            raise InvalidArgumentError(
                f"{name} must have as many elements as t has channels, {x.shape[-1]}, got "
                f"{shape_text(value.shape)}"
            )
    values, lows, highs = inputs[::3], inputs[1::3], inputs[2::3]
    mean, variance, beta, gamma = (
        to_float(xp, value, single("a range", low), single("a range", high))
        for value, low, high in zip(values[1:], lows[1:], highs[1:], strict=True)
    )
    scale = _F(1) / xp.sqrt(variance + _F(variance_epsilon))
    if scale_after_normalization:
        scale = scale * gamma
    low, high = xp.asarray(-_FAR), xp.asarray(_FAR)
    ends = (single("t_min", lows[0]), single("t_max", highs[0]))
    fixed, scales, offsets, one = (
        from_float(xp, value, low, high, _INT32)
        for value in (to_float(xp, x, *ends), scale, -mean * scale + beta, xp.ones_like(low))
    )
    return xp.trunc(fixed * scales / one).astype(np.int32) + offsets, low, high
