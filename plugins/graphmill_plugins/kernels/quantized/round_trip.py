"""QuantizeAndDequantize, V1 to V4: round floats to quantized values.

Semantics: tensorflow/core/kernels/quantize_and_dequantize_op.cc, quantize_and_dequantize_op.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._select import passed
from graphmill_plugins.kernels._support import is_numpy, scalar_int, shape_text, unfused

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": (dtypes.float32, dtypes.float64)}
_MAX_BITS = 62


def _channel_shape(x: Value, axis: int) -> tuple[int, ...]:
    """Return the shape in which per-channel values broadcast; axis -1 means one value for all.

    Raises:
        InvalidArgumentError: the axis is out of range.
    """
    if axis < -1:
        raise InvalidArgumentError(f"Axis must be at least -1. Found {axis}")
    if axis >= x.ndim:
        raise InvalidArgumentError(
            f"Axis should be -1 or 0 or a positive value less than {x.ndim}, but given axis value "
            f"was {axis}"
        )
    return tuple(x.shape[dim] if dim == axis else 1 for dim in range(x.ndim))


def _check_range(x: Value, axis: int, low: Value, high: Value) -> None:
    size = 1 if axis == -1 else x.shape[axis]
    for name, value in (("input_min", low), ("input_max", high)):
        if value.size != size or value.ndim != (axis != -1):
            raise InvalidArgumentError(
                f"{name} must be {'a scalar' if axis == -1 else f'a vector of {size}'}, got shape "
                f"{shape_text(value.shape)}"
            )


def _check_bits(bits: int, minimum: int, maximum: int) -> None:
    if not minimum <= bits <= maximum:
        raise InvalidArgumentError(f"num_bits must be between {minimum} and {maximum}, got {bits}")


def _ends(
    xp: ArrayNamespace, low: Value, high: Value, signed: bool, bits: int, narrow: bool
) -> tuple[Value, Value, Value, Value]:
    """Return the representable range when 0 maps to 0, the scale, and its inverse.

    Subnormal ends and inverses are zero, as in TensorFlow's threads: the inverse of a scale that
    overflows is subnormal.
    """
    kind = low.dtype.type
    low, high = _flushed(xp, low), _flushed(xp, high)
    first = -(1 << (bits - 1)) + narrow if signed else 0
    last = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    max_float = np.finfo(low.dtype).max
    lowest, highest = kind(first), kind(last)
    by_low = xp.where(lowest * low > 0, lowest / low, max_float)
    by_high = xp.where(highest * high > 0, highest / high, max_float)
    is_low = by_low < by_high
    inverse = _flushed(xp, xp.where(is_low, low / (lowest if first else kind(1)), high / highest))
    new_low = xp.where(is_low, low, lowest * inverse)
    new_high = xp.where(is_low, highest * inverse, high)
    return new_low, new_high, xp.where(is_low, by_low, by_high), inverse


def _flushed(xp: ArrayNamespace, value: Value) -> Value:
    return xp.where(xp.abs(value) < np.finfo(value.dtype).tiny, value.dtype.type(0), value)


def _round_trip(
    xp: ArrayNamespace,
    x: Value,
    low: Value,
    high: Value,
    bits: int,
    *,
    signed_input: bool,
    range_given: bool,
    round_mode: str,
    narrow_range: bool,
    axis: int,
) -> Value:
    shape = _channel_shape(x, axis)
    if range_given:
        _check_range(x, axis, low, high)
        if xp is np and not (low <= high).all():
            raise InvalidArgumentError(f"Invalid range: input_min {low} > input_max {high}")
        low, high = low.reshape(shape), high.reshape(shape)
    else:
        axes = tuple(dim for dim in range(x.ndim) if dim != axis)
        is_number = x == x  # NaN is no end of the range
        low = xp.where(is_number, x, x.dtype.type(np.inf)).min(
            axis=axes, keepdims=True, initial=np.inf
        )
        high = xp.where(is_number, x, x.dtype.type(-np.inf)).max(
            axis=axes, keepdims=True, initial=-np.inf
        )
    low, high, scale, inverse = _ends(xp, low, high, signed_input, bits, narrow_range)
    if range_given:
        # With one signed bit, the range begins at 0 * inf, which TensorFlow's maximum ignores.
        low = xp.where(low == low, low, x.dtype.type(-np.inf))
        x = xp.maximum(xp.minimum(x, high), low)  # the range may lie on one side of 0
    moved = unfused(xp, x * scale)
    if not is_numpy(xp):  # where the scale overflows, a compiled product is finite
        moved = xp.where((x < 0) & xp.isinf(scale), x.dtype.type(-np.inf), moved)
    half = x.dtype.type(0.5)
    whole = xp.floor(moved + half) if round_mode == "HALF_UP" else xp.round(moved)
    return whole * inverse


@kernel("QuantizeAndDequantize", types=_TYPES)
def quantize_and_dequantize_v1(
    xp: ArrayNamespace,
    x: Value,
    signed_input: bool,
    num_bits: int,
    range_given: bool,
    input_min: float,
    input_max: float,
) -> Value:
    """Round to the steps of a range that is given by attrs, or of the input's range."""
    _check_bits(num_bits, 1, _MAX_BITS - signed_input)
    low, high = (xp.asarray(end, x.dtype) for end in (input_min, input_max))
    if range_given and not input_min <= input_max:
        raise InvalidArgumentError(f"Invalid range: input_min {input_min} > input_max {input_max}")
    return _round_trip(
        xp, x, low, high, num_bits, signed_input=signed_input, range_given=range_given,
        round_mode="HALF_UP", narrow_range=False, axis=-1,
    )  # fmt: skip


@kernel("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4", types=_TYPES)
def quantize_and_dequantize(
    xp: ArrayNamespace,
    x: Value,
    input_min: Value,
    input_max: Value,
    num_bits: int,
    signed_input: bool,
    range_given: bool,
    round_mode: str,
    narrow_range: bool,
    axis: int,
) -> Value:
    """Round to the steps of a given range, or of the input's range."""
    _check_bits(num_bits, 1, _MAX_BITS - signed_input)
    return _round_trip(
        xp, x, input_min, input_max, num_bits, signed_input=signed_input, range_given=range_given,
        round_mode=round_mode, narrow_range=narrow_range, axis=axis,
    )  # fmt: skip


@kernel("QuantizeAndDequantizeV3", types=_TYPES, static=("num_bits",))
def quantize_and_dequantize_v3(
    xp: ArrayNamespace,
    x: Value,
    input_min: Value,
    input_max: Value,
    num_bits: Value,
    signed_input: bool,
    range_given: bool,
    narrow_range: bool,
    axis: int,
) -> Value:
    """Round to the steps of a range; the number of bits is an input."""
    bits = scalar_int("num_bits", num_bits)
    _check_bits(bits, 1, _MAX_BITS - signed_input)
    if not x.ndim:
        raise InvalidArgumentError(
            f"Axis requested is larger than input dimensions. Axis: {axis} Input Dimensions: 0"
        )
    if axis == -1 and input_min.size == input_max.size == 1:
        input_min, input_max = input_min.reshape(()), input_max.reshape(())  # of any rank
    return _round_trip(
        xp, x, input_min, input_max, bits, signed_input=signed_input, range_given=range_given,
        round_mode="HALF_TO_EVEN", narrow_range=narrow_range, axis=axis,
    )  # fmt: skip


@kernel("QuantizeAndDequantizeV4Grad", types=_TYPES)
def quantize_and_dequantize_grad(
    xp: ArrayNamespace, gradients: Value, x: Value, input_min: Value, input_max: Value, axis: int
) -> tuple[Value, Value, Value]:
    """Return the gradient where the input is within the range; range bounds get zeros."""
    if gradients.shape != x.shape:
        raise InvalidArgumentError(
            f"gradient and input must be the same size, got {shape_text(gradients.shape)} and "
            f"{shape_text(x.shape)}"
        )
    shape = _channel_shape(x, axis)
    _check_range(x, axis, input_min, input_max)
    low, high = input_min.reshape(shape), input_max.reshape(shape)
    inside = passed(xp, (x >= low) & (x <= high), gradients)
    return inside, xp.zeros_like(input_min), xp.zeros_like(input_max)
