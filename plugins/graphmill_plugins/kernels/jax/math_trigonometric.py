"""Sine, cosine and tangent on JAX, for float32 and narrower floats.

XLA:CPU calls libm for each element, which takes thirty times as long as a polynomial, because it
vectorizes the polynomial. The error is below two units in the last place, as NumPy's is; that of
the tangent is below four. The argument is reduced to [-pi/4, pi/4] in float64: no digit of a
float32 is lost up to `_LIMIT`, and arrays with larger elements are left to XLA. Other devices have
fast functions of their own.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill import dtypes
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_LIMIT: Final = 2.0**20
_MIN_REDUCED_SIZE: Final = 8192
"""Number of elements below which the general function is faster.

Its time for each element is six times as long, but the polynomial is behind a conditional, which
takes 10 to 50 microseconds, and separates what XLA would otherwise fuse.
"""

_QUARTER: Final = math.pi / 2
_QUARTER_HIGH: Final = math.floor(_QUARTER * 2.0**28) / 2.0**28  # its multiples are exact
_QUARTER_LOW: Final = _QUARTER - _QUARTER_HIGH + 6.123233995736766e-17  # what _QUARTER_HIGH lacks

# Minimax polynomials of the Cephes library, of the square of the argument.
_SINE: Final = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE: Final = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)


def _reduced(x: Value) -> tuple[Value, Value]:
    """Return the number of quarter turns to subtract from each angle, and the remainder."""
    wide = x.astype(np.float64)
    quarters = jnp.rint(wide * (1 / _QUARTER))
    rest = (wide - quarters * _QUARTER_HIGH) - quarters * _QUARTER_LOW
    return quarters.astype(np.int32), rest.astype(np.float32)


def _sine_and_cosine(rest: Value) -> tuple[Value, Value]:
    """Return sine and cosine of angles in [-pi/4, pi/4]."""
    square = rest * rest
    sine = _polynomial(_SINE, square) * square * rest + rest
    half = np.float32(0.5)
    cosine = _polynomial(_COSINE, square) * square * square - half * square + np.float32(1)
    return sine, cosine


def _polynomial(factors: tuple[float, ...], square: Value) -> Value:
    result = jnp.full_like(square, factors[0])
    for factor in factors[1:]:
        result = result * square + np.float32(factor)
    return result


def _advanced_sine(x: Value, ahead: int) -> Value:
    """Return the sine of angles increased by `ahead` quarter turns."""
    quarters, rest = _reduced(x)
    sine, cosine = _sine_and_cosine(rest)
    quarters = quarters + ahead
    value = jnp.where(quarters & 1, cosine, sine)
    return jnp.where(quarters & 2, -value, value)


def _sine(x: Value) -> Value:
    return jnp.where(x == 0, x, _advanced_sine(x, 0))  # keeps the sign of zero


def _cosine(x: Value) -> Value:
    return _advanced_sine(x, 1)


def _tangent(x: Value) -> Value:
    quarters, rest = _reduced(x)
    sine, cosine = _sine_and_cosine(rest)
    return jnp.where(x == 0, x, jnp.where(quarters & 1, -cosine / sine, sine / cosine))


def _polynomial_on_cpu(
    polynomial: Callable[[Value], Value], general: Callable[[Value], Value]
) -> Callable[[Value], Value]:
    """Return the polynomial where it is faster and as accurate, else the general function."""

    def on_cpu(x: Value) -> Value:
        is_large = jnp.any(jnp.abs(x) > np.float32(_LIMIT))
        return lax.cond(is_large, general, polynomial, x)

    def apply(x: Value) -> Value:
        if x.dtype != np.float32 or x.size < _MIN_REDUCED_SIZE:
            return general(x)
        return lax.platform_dependent(x, cpu=on_cpu, default=general)

    return apply


FUNCTIONS = functions_in_float32(
    __name__,
    {
        "Sin": lambda: _polynomial_on_cpu(_sine, lax.sin),
        "Cos": lambda: _polynomial_on_cpu(_cosine, lax.cos),
        "Tan": lambda: _polynomial_on_cpu(_tangent, lax.tan),
    },
    backend="jax",
    types=(dtypes.float32, dtypes.bfloat16, dtypes.float16),
)
