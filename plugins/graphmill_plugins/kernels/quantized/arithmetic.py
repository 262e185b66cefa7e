"""QuantizedAdd and QuantizedMul: add and multiply values of two ranges.

Semantics: tensorflow/core/kernels/quantized_add_op.cc, quantized_mul_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._quantize import (
    centred,
    check_ends,
    from_float,
    from_float_unclamped,
    limits,
    product_range,
    sole,
    to_float,
)
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels._quantize import Ranged

_F = np.float32
_INT32 = np.dtype(np.int32)
_TYPES = {"T1": (dtypes.quint8,), "T2": (dtypes.quint8,), "Toutput": (dtypes.qint32,)}
_HEADROOM = 1 << 14
"""The ratio of a sum's range to the larger of the ranges of its terms."""


def _checked_ends(
    xp: ArrayNamespace, x: Value, y: Value, ranges: Sequence[Value]
) -> tuple[Value, ...]:
    """Return the ends of both ranges.

    Raises:
        InvalidArgumentError: an end is not a scalar, a range is empty, or the shapes of the values
            do not broadcast.
    """
    names = ("min_x", "max_x", "min_y", "max_y")
    ends = tuple(sole(name, value) for name, value in zip(names, ranges, strict=True))
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError as error:
        raise InvalidArgumentError(
            f"Incompatible shapes: {shape_text(x.shape)} vs. {shape_text(y.shape)}"
        ) from error
    if xp is np:
        check_ends("x", *ends[:2])
        check_ends("y", *ends[2:])
    return ends


def _requantized_alone(
    xp: ArrayNamespace, x: Value, ends: tuple[Value, Value], new_ends: tuple[Value, Value]
) -> Value:
    """Convert the only value of an input to another range of int32, through a float."""
    return from_float(xp, to_float(xp, x, *ends), *new_ends, _INT32)


def _widened(
    xp: ArrayNamespace, x: Value, ends: tuple[Value, Value], new_ends: tuple[Value, Value]
) -> Value:
    """Convert values of 8 bits to another range of int32, in fixed point."""
    codes = (to_float(xp, xp.full(ends[0].shape, code, x.dtype), *ends) for code in (0, 1))
    first, second = (from_float_unclamped(xp, code, *new_ends, _INT32) for code in codes)
    step = (second - first).astype(np.int32).astype(np.int64)
    bounds = limits(_INT32)
    moved = first + x.astype(np.int64) * step
    return xp.clip(moved, bounds.lowest, bounds.highest).astype(np.int32)


@kernel("QuantizedAdd", types=_TYPES)
def quantized_add(xp: ArrayNamespace, x: Value, y: Value, *ranges: Value) -> Ranged:
    """Add two arrays that broadcast, in a symmetric range with room for the sum."""
    ends = _checked_ends(xp, x, y, ranges)
    lowest, highest = xp.minimum(ends[0], ends[2]), xp.maximum(ends[1], ends[3])
    high = xp.maximum(xp.abs(lowest), xp.abs(highest)) * _F(_HEADROOM)
    sole_x, sole_y = x.size == 1, y.size == 1 and x.size != 1
    terms = [
        (_requantized_alone if is_sole else _widened)(xp, value, own, (-high, high))
        for value, own, is_sole in ((x, ends[:2], sole_x), (y, ends[2:], sole_y))
    ]
    return terms[0] + terms[1], -high, high


@kernel("QuantizedMul", types=_TYPES)
def quantized_mul(xp: ArrayNamespace, x: Value, y: Value, *ranges: Value) -> Ranged:
    """Multiply two arrays that broadcast; the products are exact in int32."""
    ends = _checked_ends(xp, x, y, ranges)
    product = centred(xp, x, *ends[:2]) * centred(xp, y, *ends[2:])
    return (product, *product_range(x, y, ends))
