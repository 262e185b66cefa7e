"""XlaDequantize: dequantize 8-bit numbers that are packed into 32-bit integers.

Semantics: `Dequantize` of XLA's quantize.h. All arithmetic is in bfloat16, and the first number is
in the highest bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import ml_dtypes
import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel

if TYPE_CHECKING:
    from graphmill.spi import Value

_NUMBERS = 4  # in each integer


@kernel("XlaDequantize", host=True)
def xla_dequantize(
    input: Value,  # noqa: A002
    min_range: float,
    max_range: float,
    mode: str,
    transpose_output: bool,
) -> Value:
    """Return the numbers as floats, where 0 maps to `min_range` and 255 to `max_range`.

    The last axis has the numbers of its integers; `transpose_output` reverses the axes.

    Raises:
        InvalidArgumentError: the mode is not MIN_COMBINED, or the input is a scalar.
    """
    if mode != "MIN_COMBINED":
        raise InvalidArgumentError(f"Only MIN_COMBINED is supported as dequantization mode: {mode}")
    if not input.ndim:
        raise InvalidArgumentError("input must have at least one axis, got a scalar")
    *others, columns = input.shape
    packed = input.astype(">u4").view(np.uint8).reshape(*others, columns * _NUMBERS)
    scale = ml_dtypes.bfloat16(np.float32(max_range - min_range) / np.float32(255))
    numbers = packed.astype(ml_dtypes.bfloat16) * scale + ml_dtypes.bfloat16(min_range)
    return np.ascontiguousarray(numbers.T) if transpose_output else numbers
