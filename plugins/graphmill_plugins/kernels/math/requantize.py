"""Requantize and RequantizationRange: convert quantized values to another range.

Semantics: tensorflow/core/kernels/requantize.cc, requantization_range_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import first_of, requantized, sole, used_range

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


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
