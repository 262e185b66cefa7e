"""Checks for the ranges of quantized values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, errors
from graphmill_plugins.lowerings.magnitudes import are_within

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_MAX_MAGNITUDE: Final = 1e30
"""Maximum range; the quantization step of larger ones overflows, differently in XLA and NumPy."""


def range_is_ordered(
    xp: ArrayNamespace, values: Value, low: Value, high: Value, *_: Value, range_given: bool
) -> Value:
    """Check that the end of a given range is not below its start."""
    del values
    return xp.all(low <= high) if range_given else np.True_


def quantized_range_is_moderate(
    xp: ArrayNamespace, values: Value, low: Value, high: Value, *_: Value, range_given: bool
) -> Value:
    """Check that the range, by default that of the values, is of moderate size."""
    return _are_moderate(xp, low, high) if range_given else _are_moderate(xp, values)


def range_is_moderate(xp: ArrayNamespace, values: Value, low: Value, high: Value) -> Value:
    """Check that the ends of a range are of moderate size."""
    del values
    return _are_moderate(xp, low, high)


def gradient_range_is_moderate(
    xp: ArrayNamespace, gradients: Value, values: Value, low: Value, high: Value
) -> Value:
    """Check that the ends of a range and all values are of moderate size."""
    del gradients
    return _are_moderate(xp, values, low, high)


def _are_moderate(xp: ArrayNamespace, *limits: Value) -> Value:
    holds = np.True_
    for value in limits:
        holds = holds & are_within(xp, value, _MAX_MAGNITUDE)
    return holds


LOWERINGS: Final = LoweringTable(
    (
        Lowering(
            ("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4"),
            checks=(
                Check(range_is_ordered, errors.InvalidArgumentError),
                Check(quantized_range_is_moderate),
            ),
        ),
        Lowering(
            ("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"),
            checks=(Check(range_is_moderate),),
        ),
        Lowering(
            ("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"),
            checks=(Check(gradient_range_is_moderate),),
        ),
    )
)
