"""Convert between floats and quantized values as TensorFlow's kernels do.

Semantics: tensorflow/core/kernels/quantization_utils.h. Where TensorFlow computes in float32 or in
float64, so do these functions. They work on any array namespace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels._matmul import matmul_of
from graphmill_plugins.kernels._support import shape_text, unfused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value

    Ranged = tuple[Value, Value, Value]
    """Quantized values and the ends of their range."""

_F, _D = np.float32, np.float64


class Limits(NamedTuple):
    """The smallest and largest value of a quantized type."""

    lowest: int
    highest: int

    @property
    def steps(self) -> int:
        """The number of quantized values."""
        return self.highest - self.lowest + 1


def plain(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the integer type that stores a quantized type."""
    return np.dtype(f"{dtype.kind}{dtype.itemsize}")


def limits(dtype: np.dtype[Any]) -> Limits:
    """Return the limits of a type, quantized or not."""
    info = np.iinfo(plain(dtype))
    return Limits(int(info.min), int(info.max))


def sole(name: str, value: Value) -> Value:
    """Return the only element of an input.

    Raises:
        InvalidArgumentError: it is not a scalar.
    """
    if value.ndim:
        raise InvalidArgumentError(f"{name} must be rank 0 but is rank {value.ndim}")
    return value


def first_of(name: str, value: Value) -> Value:
    """Return the first element of an input; TensorFlow ignores the others.

    Raises:
        InvalidArgumentError: it has none.
    """
    if not value.size:
        raise InvalidArgumentError(f"{name} must have an element, got {shape_text(value.shape)}")
    return value.reshape(-1)[0]


def single(name: str, value: Value) -> Value:
    """Return the only element of an input of any rank.

    Raises:
        InvalidArgumentError: it does not have exactly one element.
    """
    if value.size != 1:
        raise InvalidArgumentError(f"{name} must have one element, got {shape_text(value.shape)}")
    return value.reshape(())


def rounded(xp: ArrayNamespace, x: Value) -> Value:
    """Round to integers, halves away from zero as C++ does."""
    whole = xp.trunc(x)
    return whole + xp.where(xp.abs(x - whole) >= _F(0.5), xp.sign(x), xp.zeros_like(x))


def to_int32(xp: ArrayNamespace, x: Value) -> Value:
    """Convert floats to int32, in which floats out of range become the lowest number, as on x86."""
    end = _F(1 << 31)
    return xp.where((x >= -end) & (x < end), x, -end).astype(np.int32)


def to_floats(xp: ArrayNamespace, x: Value, low: Value, high: Value) -> Value:
    """Dequantize an array, in float32."""
    bounds = limits(x.dtype)
    scale = ((high - low) / _D(bounds.steps - 1)).astype(_F)
    first = xp.where(high == low, low, rounded(xp, low / scale) * scale)
    return (first - _F(bounds.lowest) * scale) + unfused(xp, x.astype(_F) * scale)


def to_float(xp: ArrayNamespace, x: Value, low: Value, high: Value) -> Value:
    """Dequantize one value, in float64; the start of the range is rounded in float32."""
    bounds = limits(x.dtype)
    span = (high - low) * _D(bounds.steps / (bounds.steps - 1.0))
    scale = span / _D(bounds.steps)
    narrow = scale.astype(_F)
    first = (rounded(xp, low / narrow) * narrow).astype(_D)
    floats = first + (x.astype(_D) - _D(bounds.lowest)) * scale
    return xp.where(low == high, low, floats.astype(_F))


def from_floats(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, dtype: np.dtype[Any]
) -> Value:
    """Quantize an array in float32, and clamp it to the range."""
    bounds = limits(dtype)
    scale = xp.where(high == low, _D(0), _D(bounds.steps - 1) / (high - low)).astype(_F)
    start = rounded(xp, low * scale) - _F(bounds.lowest)
    highest = min(_F(bounds.highest), _F(2147483520))  # the largest float below 2**31
    clipped = xp.clip(rounded(xp, x * scale) - start, _F(bounds.lowest), highest)
    return clipped.astype(np.int32).astype(plain(dtype))


def from_float_unclamped(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, dtype: np.dtype[Any]
) -> Value:
    """Quantize a float in float64; return it as int64, not clamped."""
    bounds = limits(dtype)
    span = (high - low) * _D(bounds.steps / (bounds.steps - 1.0))
    scale = xp.where(low == high, _D(0), _D(bounds.steps) / span)
    difference = rounded(xp, x * scale) - rounded(xp, low * scale)
    return difference.astype(np.int64) + bounds.lowest


def from_float(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, dtype: np.dtype[Any]
) -> Value:
    """Quantize one float in float64, and clamp it to the range."""
    bounds = limits(dtype)
    unclamped = from_float_unclamped(xp, x, low, high, dtype)
    return xp.clip(unclamped, bounds.lowest, bounds.highest).astype(plain(dtype))


def product_range(
    a: Value, b: Value, ranges: Sequence[Value], *, is_symmetric: bool = False
) -> tuple[Value, Value]:
    """Return the range of int32 sums of products of values from two ranges.

    Args:
        a: the values of one range.
        b: the values of the other range.
        ranges: the lowest and the highest value of each range.
        is_symmetric: whether the lowest value of a signed type is not used.
    """
    min_a, max_a, min_b, max_b = ranges
    steps = []
    for value, low, high in ((a, min_a, max_a), (b, min_b, max_b)):
        bounds = limits(value.dtype)
        lowest = max(bounds.lowest, -bounds.highest) if is_symmetric else bounds.lowest
        steps.append((high - low) / _F(bounds.highest - lowest))
    step = steps[0] * steps[1]
    bounds = limits(np.dtype(np.int32))
    return step * _F(bounds.lowest), step * _F(bounds.highest)


def centred(xp: ArrayNamespace, x: Value, low: Value, high: Value) -> Value:
    """Return values, as int32, shifted so that 0 stands for the float 0."""
    zero = from_float_unclamped(xp, xp.zeros_like(low), low, high, x.dtype)
    return x.astype(np.int32) - zero.astype(np.int32)


def check_ends(name: str, low: Value, high: Value) -> None:
    """Raise InvalidArgumentError unless a range ends after its start."""
    if not high > low:
        raise InvalidArgumentError(
            f"max_{name} must be larger than min_{name}, got {float(high)} and {float(low)}"
        )


def _largest(x: Value) -> int:
    return max(int(x.max()), -int(x.min()))


def exact_dtype(xp: ArrayNamespace, left: Value, right: Value, depth: int) -> np.dtype[Any]:
    """Return a type in which sums of `depth` products of int32 values equal those in int32.

    NumPy multiplies matrices of floats faster, and those are exact for small values.
    """
    if xp is not np or not left.size or not right.size:
        return np.dtype(np.int32)
    bound = depth * _largest(left) * _largest(right)
    if bound > np.iinfo(np.int32).max:
        return np.dtype(np.int32)
    return np.dtype(np.float32 if bound <= 1 << np.finfo(np.float32).nmant else np.float64)


def exact_product(xp: ArrayNamespace, left: Value, right: Value) -> Value:
    """Multiply int32 matrices."""
    dtype = exact_dtype(xp, left, right, left.shape[1])
    multiply = matmul_of(xp)
    return multiply(left.astype(dtype), right.astype(dtype)).astype(np.int32)


def requantized(
    xp: ArrayNamespace,
    x: Value,
    ranges: tuple[Value, Value, Value, Value],
    dtype: np.dtype[Any],
) -> Value:
    """Convert quantized values from one range to another.

    The conversion from int32 to uint8 uses fixed point with 16 fractional bits.
    """
    low, high, new_low, new_high = ranges
    if (x.dtype.kind, x.dtype.itemsize, dtype.kind, dtype.itemsize) != ("i", 4, "u", 1):
        return from_floats(xp, to_floats(xp, x, low, high), new_low, new_high, dtype)
    one = 1 << 16
    old_span, new_span = high - low, new_high - new_low
    is_point = new_span == 0
    divisor = xp.where(is_point, _F(1), new_span)
    reciprocal = xp.where(is_point, _D(0), _D(255) / divisor).astype(_F)
    middle = ((low + high) / _D(2)).astype(_F)
    scale = xp.where(is_point, _D(0), _D(255.0 * one) * old_span / divisor).astype(np.int64)
    offset = (middle * reciprocal * _F(one)).astype(np.int64)
    new_offset = xp.where(is_point, _D(0), _D(one) * (new_low * _D(255)) / divisor)
    start = offset - new_offset.astype(np.int64) + (one >> 1)
    scaled = ((x.astype(np.int64) * scale) >> 32) + start
    return xp.clip(scaled >> 16, 0, 255).astype(np.uint8)


def used_range(xp: ArrayNamespace, x: Value, low: Value, high: Value) -> tuple[Value, Value]:
    """Return the range of floats that the values cover; its lower end is at most 0."""
    bounds = limits(x.dtype)
    smallest = xp.min(x, initial=bounds.highest)
    largest = xp.max(x, initial=bounds.lowest)
    first = to_float(xp, smallest, low, high)
    return xp.where(first < 0, first, _F(0)), to_float(xp, largest, low, high)
