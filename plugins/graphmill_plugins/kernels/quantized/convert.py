"""QuantizeV2 and Dequantize: convert floats to quantized values and back.

Semantics: tensorflow/core/kernels/quantize_op.cc, dequantize_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import (
    Limits,
    from_floats,
    limits,
    plain,
    rounded,
    to_floats,
)
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_F, _D = np.float32, np.float64
_MAX_FLOAT = np.finfo(np.float32).max


def _range_shape(x: Value, axis: int, low: Value, high: Value) -> tuple[int, ...]:
    """Return the shape in which range bounds broadcast over the input.

    Raises:
        InvalidArgumentError: the axis is out of range, or its size differs from the number of
            ranges.
    """
    if axis >= x.ndim or axis < -1:
        raise InvalidArgumentError(f"Axis must be less than input dimension({x.ndim}), got {axis}")
    shape = [1] * x.ndim
    if axis >= 0:
        shape[axis] = x.shape[axis]
    slices = x.shape[axis] if axis >= 0 else 1
    if low.size != slices or high.size != slices:
        raise InvalidArgumentError(
            f"min_range and max_range must have as many elements as input on axis {axis}, "
            f"{slices}, got {shape_text(low.shape)} and {shape_text(high.shape)}"
        )
    return tuple(shape)


def _half(bounds: Limits) -> np.float32:
    """Return the offset of signed types from unsigned types; 0 for unsigned types."""
    return _F(bounds.steps / 2) if bounds.lowest else _F(0)


@kernel("Dequantize", types={"T": dtypes.QUANTIZED, "dtype": (dtypes.float32, dtypes.bfloat16)})
def dequantize(
    xp: ArrayNamespace,
    x: Value,
    min_range: Value,
    max_range: Value,
    mode: str,
    narrow_range: bool,
    axis: int,
    dtype: np.dtype[Any],
) -> Value:
    """Return the floats of quantized values."""
    shape = _range_shape(x, axis, min_range, max_range)
    if dtype != np.float32 and mode != "MIN_COMBINED":
        raise InvalidArgumentError(
            f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is {mode!r}"
        )
    if mode == "MIN_FIRST" and min_range.size != 1:
        raise UnimplementedError("MIN_FIRST mode is not implemented for Dequantize with axis != -1")
    low, high = min_range.reshape(shape), max_range.reshape(shape)
    bounds = limits(x.dtype)
    if mode == "MIN_FIRST":
        return to_floats(xp, x, low, high)
    if mode == "SCALED":
        scale = high / _F(bounds.highest)
        if bounds.lowest:
            scale = xp.maximum(low / _F(bounds.lowest + narrow_range), scale)
        return x.astype(_F) * scale
    scale = (high - low) / (_F(bounds.highest) - _F(bounds.lowest))
    return ((x.astype(_F) + _half(bounds)) * scale + low).astype(dtype)


def _scaled_range(
    xp: ArrayNamespace, low: Value, high: Value, bounds: Limits, narrow: bool
) -> tuple[Value, Value, Value]:
    """Return the scale that maps 0 to 0, and the range that it can represent."""
    lowest, highest = _F(bounds.lowest + narrow), _F(bounds.highest)
    by_low = xp.where(lowest * low > 0, lowest / low, _MAX_FLOAT)
    by_high = xp.where(highest * high > 0, highest / high, _MAX_FLOAT)
    scale = xp.minimum(by_low, by_high)
    return scale, lowest / scale, highest / scale


@kernel("QuantizeV2", types={"T": dtypes.QUANTIZED})
def quantize(
    xp: ArrayNamespace,
    x: Value,
    min_range: Value,
    max_range: Value,
    T: np.dtype[Any],
    mode: str,
    round_mode: str,
    narrow_range: bool,
    axis: int,
    ensure_minimum_range: float,
) -> tuple[Value, Value, Value]:
    """Quantize floats; return the range too, adjusted to include 0 and be non-empty."""
    if round_mode == "HALF_TO_EVEN" and mode != "SCALED":
        raise InvalidArgumentError(
            f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is {mode!r}"
        )
    if mode == "MIN_FIRST" and axis != -1:
        raise UnimplementedError("MIN_FIRST mode is not implemented for Quantize with axis != -1")
    shape = _range_shape(x, axis, min_range, max_range)
    if axis == -1:  # one range, whose bounds may have any rank
        min_range, max_range = min_range.reshape(()), max_range.reshape(())
    if xp is np and (max_range < min_range).any():
        raise InvalidArgumentError("input_max_range must be larger than input_min_range.")
    low = xp.minimum(_F(0), min_range)
    width = xp.maximum(_F(1), xp.maximum(xp.abs(min_range), xp.abs(max_range)))
    high = xp.maximum(_F(0), xp.maximum(max_range, low + width * _F(ensure_minimum_range)))
    bounds = limits(T)
    first, last = low.reshape(shape), high.reshape(shape)
    if mode == "MIN_FIRST":
        return from_floats(xp, x, first, last, T), low, high
    if mode == "SCALED":
        scale, low, high = _scaled_range(xp, low, high, bounds, narrow_range)
        moved = xp.clip(x, low.reshape(shape), high.reshape(shape)) * scale.reshape(shape)
        whole = xp.round(moved) if round_mode == "HALF_TO_EVEN" else rounded(xp, moved)
    else:
        scale = (_D(bounds.highest - bounds.lowest) / (last - first)).astype(_F)
        whole = (xp.clip(x, first, last) - first) * scale
        whole = rounded(xp, whole - _half(bounds)) if bounds.lowest else xp.floor(whole + _F(0.5))
    if T.itemsize < 4:  # values outside of int32 become its minimum instead, as on x86
        whole = xp.clip(whole, _F(bounds.lowest), _F(bounds.highest))
    return whole.astype(np.int64).astype(plain(T)), low, high
