"""Functions of complex numbers on JAX, with C's values at zeros and infinities (Annex G)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value

_CUT_ON_REAL_AXIS = {
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Atanh": "arctanh",
    "Sqrt": "sqrt",
}
_CUT_ON_IMAGINARY_AXIS = {"Asinh": "arcsinh", "Atan": "arctan"}


def _conjugate_below(name: str) -> Callable[[Value], Value]:
    """Return a function with f(z*) = f(z)*, computed above the real axis, where its cut is."""
    function = getattr(jnp, name)

    def compute(x: Value) -> Value:
        is_below = jnp.signbit(x.imag)
        value = function(lax.complex(x.real, jnp.where(is_below, -x.imag, x.imag)))
        return lax.complex(value.real, jnp.where(is_below, -value.imag, value.imag))

    return compute


def _mirrored_on_the_left(name: str) -> Callable[[Value], Value]:
    """Return a function with f(-z*) = -f(z)*, computed right of the imaginary axis."""
    function = getattr(jnp, name)

    def compute(x: Value) -> Value:
        is_left = jnp.signbit(x.real)
        value = function(lax.complex(jnp.where(is_left, -x.real, x.real), x.imag))
        return lax.complex(jnp.where(is_left, -value.real, value.real), value.imag)

    return compute


# At a branch cut the sign of a zero tells the side, which XLA's functions do not distinguish.
WITH_BRANCH_CUTS = functions_in_float32(
    __name__,
    {op: partial(_conjugate_below, name) for op, name in _CUT_ON_REAL_AXIS.items()}
    | {op: partial(_mirrored_on_the_left, name) for op, name in _CUT_ON_IMAGINARY_AXIS.items()},
    backend="jax",
    types=dtypes.COMPLEX,
)


@kernel("Exp", backend="jax", types={"T": dtypes.COMPLEX})
def exp(x: Value) -> Value:
    """Return the exponential; for an infinite real part it does not need the angle's sine."""
    a, b = x.real, x.imag
    value = lax.exp(x)
    has_no_angle = ~jnp.isfinite(b)
    magnitude = jnp.where(a > 0, a, 0)  # of an infinite real part
    real = jnp.where(jnp.isinf(a) & has_no_angle, magnitude, value.real)
    signed = jnp.where(jnp.isnan(b), 0.0, jnp.copysign(0.0, b))
    imag = jnp.where((a == -np.inf) & has_no_angle, signed, value.imag)
    return lax.complex(real, jnp.where(b == 0, b, imag).astype(real.dtype))


@kernel("Log", backend="jax", types={"T": dtypes.COMPLEX})
def log(x: Value) -> Value:
    """Return the logarithm; its real part is infinite if one part of `x` is, also beside NaN."""
    value = lax.log(x)
    is_infinite = jnp.isinf(x.real) | jnp.isinf(x.imag)
    return lax.complex(jnp.where(is_infinite, np.inf, value.real), value.imag)


@kernel("Cos", backend="jax", types={"T": dtypes.COMPLEX})
def cos(x: Value) -> Value:
    """Return the cosine, whose parts are cos a cosh b and -sin a sinh b."""
    a, b = x.real, x.imag
    value = lax.cos(x)
    is_undefined = ~jnp.isfinite(a)
    real = jnp.where(is_undefined & jnp.isinf(b), np.inf, value.real)
    signed = jnp.where(jnp.isnan(b), 0.0, -(a * jnp.copysign(1.0, b)))
    imag = jnp.where(a == 0, signed, jnp.where(is_undefined & (b == 0), 0.0, value.imag))
    return lax.complex(real, imag.astype(real.dtype))
