"""Logarithm, sine and cosine of float32, bitwise equal to those of the GNU C library.

TensorFlow's normal distributions call `logf`, `sinf` and `cosf` of the system's C library, whose
results are not correctly rounded in about 1% of cases. The GNU library uses the public algorithms
of Arm's optimized-routines (math/logf.c, math/sincosf.h) in double precision; the same operations
on arrays give the same bits. The domain is restricted to what the distributions need: positive
normal numbers for the logarithm, angles of at most 2 pi.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_hex = float.fromhex

# 1 / c and log(c) for c near the middle of each sixteenth of [0.7, 1.4).
_INVERSE = np.array(
    [
        _hex("0x1.661ec79f8f3bep+0"),
        _hex("0x1.571ed4aaf883dp+0"),
        _hex("0x1.49539f0f010bp+0"),
        _hex("0x1.3c995b0b80385p+0"),
        _hex("0x1.30d190c8864a5p+0"),
        _hex("0x1.25e227b0b8eap+0"),
        _hex("0x1.1bb4a4a1a343fp+0"),
        _hex("0x1.12358f08ae5bap+0"),
        _hex("0x1.0953f419900a7p+0"),
        _hex("0x1p+0"),
        _hex("0x1.e608cfd9a47acp-1"),
        _hex("0x1.ca4b31f026aap-1"),
        _hex("0x1.b2036576afce6p-1"),
        _hex("0x1.9c2d163a1aa2dp-1"),
        _hex("0x1.886e6037841edp-1"),
        _hex("0x1.767dcf5534862p-1"),
    ]
)
_LOG = np.array(
    [
        _hex("-0x1.57bf7808caadep-2"),
        _hex("-0x1.2bef0a7c06ddbp-2"),
        _hex("-0x1.01eae7f513a67p-2"),
        _hex("-0x1.b31d8a68224e9p-3"),
        _hex("-0x1.6574f0ac07758p-3"),
        _hex("-0x1.1aa2bc79c81p-3"),
        _hex("-0x1.a4e76ce8c0e5ep-4"),
        _hex("-0x1.1973c5a611cccp-4"),
        _hex("-0x1.252f438e10c1ep-5"),
        0.0,
        _hex("0x1.aa5aa5df25984p-5"),
        _hex("0x1.c5e53aa362eb4p-4"),
        _hex("0x1.526e57720db08p-3"),
        _hex("0x1.bc2860d22477p-3"),
        _hex("0x1.1058bc8a07ee1p-2"),
        _hex("0x1.4043057b6ee09p-2"),
    ]
)
_LN2 = _hex("0x1.62e42fefa39efp-1")
_LOG_POLYNOMIAL = (
    _hex("-0x1.00ea348b88334p-2"),
    _hex("0x1.5575b0be00b6ap-2"),
    _hex("-0x1.ffffef20a4123p-2"),
)
_OFFSET = np.int32(0x3F330000)  # The bits of 0.7.

_HALF_PI = _hex("0x1.921FB54442D18p0")
_COSINE = (
    1.0,
    _hex("-0x1.ffffffd0c621cp-2"),
    _hex("0x1.55553e1068f19p-5"),
    _hex("-0x1.6c087e89a359dp-10"),
    _hex("0x1.99343027bf8c3p-16"),
)
_SINE = (
    _hex("-0x1.555545995a603p-3"),
    _hex("0x1.1107605230bc4p-7"),
    _hex("-0x1.994eb3774cf24p-13"),
)


def log(xp: ArrayNamespace, x: Value) -> Value:
    """Return the natural logarithm of positive normal float32 numbers."""
    bits = x.view(np.int32)
    shifted = bits - _OFFSET
    table_index = (shifted >> 19) & 15
    exponent = shifted >> 23
    # Scaled into [0.7, 1.4): the exponent replaced, the mantissa unchanged.
    scaled = (bits - (exponent << 23)).view(np.float32).astype(np.float64)
    rest = scaled * xp.asarray(_INVERSE)[table_index] - 1.0
    base = xp.asarray(_LOG)[table_index] + exponent.astype(np.float64) * _LN2
    square = rest * rest
    a, b, c = _LOG_POLYNOMIAL
    sum_ = a * square + (b * rest + c)
    return (sum_ * square + (base + rest)).astype(np.float32)


def sine_and_cosine(xp: ArrayNamespace, x: Value) -> tuple[Value, Value]:
    """Return sine and cosine of float32 angles between 0 and 2 pi."""
    angle = x.astype(np.float64)
    quarters = xp.floor(angle * (1 / _HALF_PI) + 0.5)
    rest = angle - quarters * _HALF_PI
    square = rest * rest
    sine, cosine = _sine_polynomial(rest, square), _cosine_polynomial(square)
    quadrant = quarters.astype(np.int32) & 3
    is_odd = (quadrant & 1) == 1
    signed_sine = xp.where(is_odd, cosine, sine)
    signed_cosine = xp.where(is_odd, sine, cosine)
    sine = xp.where(quadrant >= 2, -signed_sine, signed_sine)
    cosine = xp.where((quadrant == 1) | (quadrant == 2), -signed_cosine, signed_cosine)
    return sine.astype(np.float32), cosine.astype(np.float32)


def _sine_polynomial(rest: Any, square: Any) -> Any:
    cube = rest * square
    high = _SINE[1] + square * _SINE[2]
    return (rest + cube * _SINE[0]) + cube * square * high


def _cosine_polynomial(square: Any) -> Any:
    fourth = square * square
    high = _COSINE[3] + square * _COSINE[4]
    low = _COSINE[0] + square * _COSINE[1]
    return (low + fourth * _COSINE[2]) + fourth * square * high
