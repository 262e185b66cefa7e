"""Requantize and RequantizationRange: convert quantized values to another range.

The forms `PerChannel` have a range for each channel of the input.

Semantics: tensorflow/core/kernels/requantize.cc, requantization_range_op.cc,
mkl/mkl_requantize_per_channel_op.cc, mkl/mkl_requantization_range_per_channel_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import (
    first_of,
    limits,
    requantized,
    sole,
    to_int32,
    used_range,
)
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_F = np.float32
_STEPS = _F(1 << 31)
"""The number of steps of int32 on each side of 0."""


@kernel("RequantizationRange", types={"Tinput": (dtypes.qint32,)})
def requantization_range(
    xp: ArrayNamespace, x: Value, input_min: Value, input_max: Value
) -> tuple[Value, Value]:
    """Return the range of the input's values, which includes 0."""
    return used_range(xp, x, first_of("input_min", input_min), first_of("input_max", input_max))


@kernel("Requantize", types={"Tinput": (dtypes.qint32,), "out_type": (dtypes.qint8, dtypes.quint8)})
def requantize(
    xp: ArrayNamespace,
    x: Value,
    input_min: Value,
    input_max: Value,
    requested_output_min: Value,
    requested_output_max: Value,
    out_type: np.dtype[Any],
) -> tuple[Value, Value, Value]:
    """Return the values in the requested range, and that range."""
    ranges = (
        sole("input_min", input_min),
        sole("input_max", input_max),
        sole("requested_output_min", requested_output_min),
        sole("requested_output_max", requested_output_max),
    )
    low, high = ranges[2:]
    if xp is np and not (low <= 0 and low <= high):
        raise InvalidArgumentError(
            "requested_output_min must be <= 0 and <= requested_output_max, got "
            f"{float(low)} and {float(high)}"
        )
    return requantized(xp, x, ranges, out_type), low, high


def _abs_max(xp: ArrayNamespace, x: Value, input_min: Value, input_max: Value) -> Value:
    """Return the larger magnitude of the two ends of each channel's range.

    Raises:
        InvalidArgumentError: the input is not 4-dimensional, or there are not as many ranges as it
            has channels.
    """
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be in NHWC format, got {shape_text(x.shape)}")
    for name, value in (("input_min", input_min), ("input_max", input_max)):
        if value.size != x.shape[-1]:
            raise InvalidArgumentError(
                f"{name} must have one element for each of the {x.shape[-1]} channels, got "
                f"{shape_text(value.shape)}"
            )
    return xp.maximum(xp.abs(input_min.reshape(-1)), xp.abs(input_max.reshape(-1)))


@kernel("RequantizationRangePerChannel", types={"T": (dtypes.qint32,)})
def requantization_range_per_channel(
    xp: ArrayNamespace, x: Value, input_min: Value, input_max: Value, clip_value_max: float
) -> tuple[Value, Value]:
    """Return one range for the values of all channels; it is symmetric, or starts at 0."""
    if not (input_min.ndim and input_max.ndim):
        raise InvalidArgumentError("input_min and input_max must not be scalars")
    ends = _abs_max(xp, x, input_min, input_max)
    if not x.size:
        raise InvalidArgumentError("input must not be empty")
    smallest, greatest = (function(x, axis=(0, 1, 2)).astype(_F) for function in (xp.min, xp.max))
    largest = to_int32(xp, xp.maximum(xp.abs(smallest), xp.abs(greatest))).astype(_F)
    high = xp.max(ends * largest / _STEPS, initial=np.finfo(_F).tiny)
    high = xp.minimum(high, _F(clip_value_max))
    return xp.where(xp.any(to_int32(xp, smallest) < 0), -high, _F(0)), high


@kernel(
    "RequantizePerChannel",
    types={"T": (dtypes.qint32,), "out_type": (dtypes.qint8, dtypes.quint8)},
)
def requantize_per_channel(
    xp: ArrayNamespace,
    x: Value,
    input_min: Value,
    input_max: Value,
    requested_output_min: Value,
    requested_output_max: Value,
    out_type: np.dtype[Any],
) -> tuple[Value, Value, Value]:
    """Return the values of all channels in the requested range, and that range."""
    ends = _abs_max(xp, x, input_min, input_max)
    low = sole("requested_output_min", requested_output_min)
    high = sole("requested_output_max", requested_output_max)
    bounds = limits(out_type)
    if xp is np and bounds.lowest and not low < 0:
        raise InvalidArgumentError(
            f"requested_output_min must be < 0 for signed values, got {float(low)}"
        )
    abs_max = xp.maximum(xp.abs(low), xp.abs(high))
    scale = _F(bounds.highest) * (ends / abs_max / _STEPS)
    moved = xp.clip(x.astype(_F) * scale, _F(bounds.lowest), _F(bounds.highest))
    return xp.round(moved).astype(out_type), low, high
