"""Affine quantization: a float is `scale * (value - zero_point)`, for a tensor or for each channel.

Semantics: tensorflow/core/kernels/uniform_quant_ops/math_utils.h, tensor_utils.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._quantize import Limits, rounded, to_int32
from graphmill_plugins.kernels._support import shape_text, unfused

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_F, _D = np.float32, np.float64
_INT8 = Limits(-128, 127)
_INT32 = Limits(-(1 << 31), (1 << 31) - 1)


class Affine(NamedTuple):
    """The parameters of a quantized tensor, in a shape that broadcasts over it.

    Attributes:
        scale: the float for one step.
        zero_point: the value that stands for the float 0.
    """

    scale: Value
    zero_point: Value


def affine(name: str, x: Value, scales: Value, zero_points: Value, axis: int) -> Affine:
    """Return the parameters of a tensor.

    Args:
        name: the name of the tensor, for errors.
        x: the tensor.
        scales: its scales.
        zero_points: its zero points.
        axis: the axis that has a scale and zero point for each index; -1 if there is only one.

    Raises:
        InvalidArgumentError: the axis is out of range, or there are not as many scales and zero
            points as there should be.
    """
    return affine_of_shape(name, x.shape, scales, zero_points, axis)


def affine_of_shape(
    name: str, shape: tuple[int, ...], scales: Value, zero_points: Value, axis: int
) -> Affine:
    """Return the parameters of a tensor of a shape; see `affine`."""
    if not -1 <= axis < len(shape):
        raise InvalidArgumentError(
            f"the quantization axis of {name} must be -1 or in [0, {len(shape)}), got {axis}"
        )
    expected = () if axis == -1 else (shape[axis],)
    if scales.shape != expected or zero_points.shape != expected:
        raise InvalidArgumentError(
            f"scales and zero points of {name} must have shape {shape_text(expected)}, got "
            f"{shape_text(scales.shape)} and {shape_text(zero_points.shape)}"
        )
    spread = tuple(size if dim == axis else 1 for dim, size in enumerate(shape))
    if axis == -1:
        spread = ()
    return Affine(scales.reshape(spread), zero_points.reshape(spread))


def check_positive(xp: ArrayNamespace, name: str, scales: Value) -> None:
    """Raise InvalidArgumentError unless all scales are positive, if they are known."""
    if xp is np and not (scales > 0).all():
        raise InvalidArgumentError(f"{name} scales elements must be all positive, got {scales}")


def clipped(xp: ArrayNamespace, x: Value, bounds: Limits) -> Value:
    """Clip values; if the bounds are in the wrong order, return the lower one."""
    return xp.maximum(xp.minimum(x, np.int32(bounds.highest)), np.int32(bounds.lowest))


def quantized(
    xp: ArrayNamespace, x: Value, inverse: Value, zero_point: Value, bounds: Limits
) -> Value:
    """Quantize floats, as int32; halves are rounded up.

    Args:
        xp: the array namespace.
        x: the floats.
        inverse: the inverse of the scale.
        zero_point: the value for 0.
        bounds: the smallest and largest result.
    """
    steps = xp.floor(unfused(xp, x * inverse) + _F(0.5))
    return clipped(xp, to_int32(xp, steps) + zero_point, bounds)


def centred_at(xp: ArrayNamespace, x: Value, zero_point: Value) -> Value:
    """Return values, as int32, from which the zero point is subtracted."""
    return as_int32(xp, x) - zero_point


def as_int32(xp: ArrayNamespace, x: Value) -> Value:
    """Convert quantized values to int32; TensorFlow's conversion of qint32 rounds to float32."""
    return x.astype(np.int32) if x.dtype.itemsize < 4 else to_int32(xp, x.astype(_F))


def _fixed_point(xp: ArrayNamespace, multiplier: Value) -> tuple[Value, Value]:
    """Return a positive multiplier as (number of 31 bits, exponent of 2).

    Raises:
        InvalidArgumentError: it is not finite and positive.
    """
    if xp is np and not (np.isfinite(multiplier) & (multiplier > 0)).all():
        raise InvalidArgumentError(
            f"the quotient of scales must be positive and finite, got {multiplier}"
        )
    fraction, shift = xp.frexp(multiplier)
    number = rounded(xp, fraction * _D(1 << 31)).astype(np.int64)
    is_carried = number == 1 << 31
    number = xp.where(is_carried, number >> 1, number)
    shift = shift.astype(np.int64) + is_carried
    number = xp.where(shift < -31, 0, xp.where(shift > 30, (1 << 31) - 1, number))
    return number, xp.where(shift < -31, 0, xp.minimum(shift, 30))


def rescaled(
    xp: ArrayNamespace,
    x: Value,
    multiplier: Value,
    zero_point: Value,
    bounds: Limits = _INT32,
) -> Value:
    """Multiply int32 by float64 in fixed point, and add a zero point.

    Args:
        xp: the array namespace.
        x: values whose zero point is 0.
        multiplier: the quotient of the scales of `x` and of the result.
        zero_point: the zero point of the result.
        bounds: the smallest and largest result.

    Raises:
        InvalidArgumentError: a multiplier is not finite and positive.
    """
    number, shift = _fixed_point(xp, multiplier)
    bits = 31 - shift
    half = xp.left_shift(xp.ones_like(bits), bits - 1)
    scaled = (x.astype(np.int64) * number + half) >> bits
    scaled = xp.clip(scaled, _INT32.lowest, _INT32.highest).astype(np.int32)
    return clipped(xp, scaled + zero_point, bounds)


def dynamically_quantized(xp: ArrayNamespace, x: Value) -> tuple[Value, Value]:
    """Quantize each row of floats to 8 bits in its own range.

    Args:
        xp: the array namespace.
        x: the floats; a row is everything at one index of axis 0.

    Returns:
        The values with zero point 0, as int32, and the scale of each row.
    """
    axes = tuple(range(1, x.ndim))
    low = x.min(axis=axes, keepdims=True, initial=_F(0)).astype(_D)
    high = x.max(axis=axes, keepdims=True, initial=_F(0)).astype(_D)
    first, last = _D(_INT8.lowest), _D(_INT8.highest)
    span = high - low
    scale = (span / (last - first)).astype(_F)
    inverse = ((last - first) / xp.where(span == 0, _D(1), span)).astype(_F)
    is_zero = (span == 0) | (scale == 0) | ~xp.isfinite(inverse)
    scale = xp.where(is_zero, _F(1), scale)
    by_low, by_high = low / scale, high / scale
    is_low = xp.abs(first) + xp.abs(by_low) < xp.abs(last) + xp.abs(by_high)
    zero = xp.where(is_low, first - by_low, last - by_high)
    zero = xp.clip(rounded(xp, zero), first, last).astype(np.int32)
    quantized_x = quantized(xp, x, inverse, zero, _INT8) - zero
    return xp.where(is_zero, np.int32(0), quantized_x), scale
