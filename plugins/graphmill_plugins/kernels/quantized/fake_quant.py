"""FakeQuant kernels: round floats to the values that a few bits can represent, and gradients.

Semantics: tensorflow/core/kernels/fake_quant_ops_functor.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import lax
from graphmill_plugins.kernels._select import passed
from graphmill_plugins.kernels._support import is_numpy, shape_text, unfused

if TYPE_CHECKING:
    from collections.abc import Callable

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
    steps = _distance(xp, x, low, high) * inverse
    return _from_steps(xp, steps, low, scale)


def _rounded_by_division(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, scale: Value
) -> Value:
    """Round as for one range that is given by inputs, which TensorFlow divides by."""
    distance = _distance(xp, x, low, high)
    if not is_numpy(xp):
        # XLA multiplies by the reciprocal of a divisor that is broadcast.
        divisor = lax.optimization_barrier(xp.broadcast_to(scale, distance.shape))
        return _from_steps(xp, distance / divisor, low, scale)
    return _from_steps(xp, distance / scale, low, scale)


def _distance(xp: ArrayNamespace, x: Value, low: Value, high: Value) -> Value:
    return xp.maximum(xp.minimum(x, high), low) - low


def _from_steps(xp: ArrayNamespace, steps: Value, low: Value, scale: Value) -> Value:
    zero = xp.floor(unfused(xp, -low * (np.float32(1) / scale)) + _HALF)
    return xp.floor(unfused(xp, steps) - zero + _HALF) * scale


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
    xp: ArrayNamespace,
    x: Value,
    low: Value,
    high: Value,
    num_bits: int,
    narrow_range: bool,
    rounded: Callable[..., Value],
) -> Value:
    """Round to steps of a range with `rounded`; a range of 0 to 0 gives zeros."""
    is_empty = (low == 0) & (high == 0)
    one = np.float32(1)
    nudged = _nudged(xp, low, xp.where(is_empty, one, high), num_bits, narrow_range)
    return xp.where(is_empty, np.float32(0), rounded(xp, x, *nudged))


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
    is_empty = (low == 0) & (high == 0)
    first, last, _ = _nudged(
        xp, low, xp.where(is_empty, np.float32(1), high), num_bits, narrow_range
    )
    axes = tuple(range(x.ndim - low.ndim))
    zero = np.float32(0)
    below = xp.where(is_empty, zero, passed(xp, x < first, gradients))
    above = xp.where(is_empty, zero, passed(xp, x > last, gradients))
    inside = xp.where(is_empty, gradients, passed(xp, (x >= first) & (x <= last), gradients))
    return inside, below.sum(axis=axes), above.sum(axis=axes)


@kernel("FakeQuantWithMinMaxVars")
def fake_quant_vars(
    xp: ArrayNamespace, x: Value, low: Value, high: Value, num_bits: int, narrow_range: bool
) -> Value:
    """Round to the steps of a range given by inputs."""
    _check_scalars(low, high)
    return _quantized(xp, x, low, high, num_bits, narrow_range, _rounded_by_division)


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
    return _quantized(xp, x, low, high, num_bits, narrow_range, _rounded)


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
