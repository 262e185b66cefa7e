"""FakeQuant kernels: round floats to the values that a few bits can represent, and gradients.

Semantics: tensorflow/core/kernels/fake_quant_ops_functor.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._select import passed
from graphmill_plugins.kernels._support import shape_text, unfused

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_HALF = np.float32(0.5)


def _limits(num_bits: int, narrow_range: bool) -> tuple[np.float32, np.float32]:
    """Return the smallest and largest quantized number.

    Raises:
        InvalidArgumentError: the number of bits is not in 2 to 16.
    """
    if not 2 <= num_bits <= 16:
        raise InvalidArgumentError(f"num_bits must be between 2 and 16, inclusive, got {num_bits}")
    return np.float32(narrow_range), np.float32((1 << num_bits) - 1)


def _nudged(
    xp: ArrayNamespace, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> tuple[Value, Value, Value]:
    """Return the range shifted so that zero is one of its steps, and the size of a step."""
    first, last = _limits(num_bits, narrow_range)
    scale = (high - low) / (last - first)
    zero = first - low / scale
    nearest = xp.floor(zero + _HALF)  # as C++'s round, since `zero` is not negative here
    zero = xp.where(zero < first, first, xp.where(zero > last, last, nearest))
    return (first - zero) * scale, (last - zero) * scale, scale


def _rounded(xp: ArrayNamespace, x: Value, low: Value, high: Value, scale: Value) -> Value:
    inverse = np.float32(1) / scale
    steps = xp.maximum(xp.minimum(x, high), low) - low
    zero = xp.floor(unfused(xp, -low * inverse) + _HALF)
    return (xp.floor(unfused(xp, steps * inverse) - zero + _HALF)) * scale


def _check_args(low: float, high: float) -> tuple[np.float32, np.float32]:
    if not low < high:
        raise InvalidArgumentError(f"min has to be smaller than max, was: {low} >= {high}")
    return np.float32(low), np.float32(high)


@kernel("FakeQuantWithMinMaxArgs")
def fake_quant_args(
    xp: ArrayNamespace,
    x: Value,
    min: float,  # noqa: A002 - the attr's own name
    max: float,  # noqa: A002 - the attr's own name
    num_bits: int,
    narrow_range: bool,
) -> Value:
    """Round to the steps of a range given by attrs."""
    low, high = _check_args(min, max)
    return _rounded(xp, x, *_nudged(np, low, high, num_bits, narrow_range))


@kernel("FakeQuantWithMinMaxArgsGradient")
def fake_quant_args_gradient(
    xp: ArrayNamespace,
    gradients: Value,
    x: Value,
    min: float,  # noqa: A002 - the attr's own name
    max: float,  # noqa: A002 - the attr's own name
    num_bits: int,
    narrow_range: bool,
) -> Value:
    """Return the gradient where the input is within the range, else zero."""
    _check_same(gradients, x)
    low, high, _ = _nudged(np, *_check_args(min, max), num_bits, narrow_range)
    return xp.where((x >= low) & (x <= high), gradients, np.float32(0))


def _check_same(gradients: Value, x: Value) -> None:
    if gradients.shape != x.shape:
        raise InvalidArgumentError(
            f"gradient and input must be the same size, got {shape_text(gradients.shape)} and "
            f"{shape_text(x.shape)}"
        )


def _check_scalars(low: Value, high: Value) -> None:
    if low.ndim or high.ndim:
        raise InvalidArgumentError(
            f"min and max must be scalars, got {shape_text(low.shape)} and {shape_text(high.shape)}"
        )


def _check_channels(x: Value, low: Value, high: Value) -> None:
    if not x.ndim:
        raise InvalidArgumentError("Shape must be at least rank 1 but is rank 0")
    if low.shape != x.shape[-1:] or high.shape != x.shape[-1:]:
        raise InvalidArgumentError(
            f"min and max have incorrect size, expected {x.shape[-1]}, got {shape_text(low.shape)} "
            f"and {shape_text(high.shape)}"
        )


def _quantized(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """Round to steps of a range; a range of 0 to 0 gives zeros."""
    is_nothing = (low == 0) & (high == 0)
    one = np.float32(1)
    nudged = _nudged(xp, low, xp.where(is_nothing, one, high), num_bits, narrow_range)
    return xp.where(is_nothing, np.float32(0), _rounded(xp, x, *nudged))


def _gradients(
    xp: ArrayNamespace,
    gradients: Value,
    x: Value,
    low: Value,
    high: Value,
    num_bits: int,
    narrow_range: bool,
) -> tuple[Value, Value, Value]:
    _check_same(gradients, x)
    is_nothing = (low == 0) & (high == 0)
    first, last, _ = _nudged(
        xp, low, xp.where(is_nothing, np.float32(1), high), num_bits, narrow_range
    )
    axes = tuple(range(x.ndim - low.ndim))
    nothing = np.float32(0)
    below = xp.where(is_nothing, nothing, passed(xp, x < first, gradients))
    above = xp.where(is_nothing, nothing, passed(xp, x > last, gradients))
    inside = xp.where(is_nothing, gradients, passed(xp, (x >= first) & (x <= last), gradients))
    return inside, below.sum(axis=axes), above.sum(axis=axes)


@kernel("FakeQuantWithMinMaxVars")
def fake_quant_vars(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """Round to the steps of a range given by inputs."""
    _check_scalars(low, high)
    return _quantized(xp, x, low, high, num_bits, narrow_range)


@kernel("FakeQuantWithMinMaxVarsGradient")
def fake_quant_vars_gradient(
    xp: ArrayNamespace,
    gradients: Value,
    x: Value,
    low: Value,
    high: Value,
    num_bits: int,
    narrow_range: bool,
) -> tuple[Value, Value, Value]:
    """Return the gradients of the input and of both ends of the range."""
    _check_scalars(low, high)
    return _gradients(xp, gradients, x, low, high, num_bits, narrow_range)


@kernel("FakeQuantWithMinMaxVarsPerChannel")
def fake_quant_channels(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """Round to steps of a range for each index of the last axis."""
    _check_channels(x, low, high)
    return _quantized(xp, x, low, high, num_bits, narrow_range)


@kernel("FakeQuantWithMinMaxVarsPerChannelGradient")
def fake_quant_channels_gradient(
    xp: ArrayNamespace,
    gradients: Value,
    x: Value,
    low: Value,
    high: Value,
    num_bits: int,
    narrow_range: bool,
) -> tuple[Value, Value, Value]:
    """Return the gradients of the input and of both ends of each range."""
    _check_channels(x, low, high)
    return _gradients(xp, gradients, x, low, high, num_bits, narrow_range)
