"""Functions of complex numbers on JAX, with C's values at zeros and infinities (Annex G)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax

if TYPE_CHECKING:
    from graphmill.spi import Value


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
