"""Special functions on JAX. Narrow floats are computed in float32.

JAX has no Bessel functions J, Y and K and no Dawson and Fresnel integrals: their nodes run on
NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins._lazy_jax import jnp, jsp, lax
from graphmill_plugins.kernels._tables import functions_in_float32
from graphmill_plugins.kernels.math.special import check_betainc, zeta_at_infinity

if TYPE_CHECKING:
    from graphmill.spi import Value


def _betainc(a: Value, b: Value, x: Value) -> Value:
    check_betainc(a, b, x)
    is_end, is_positive = (x == 0) | (x == 1), ~((a <= 0) | (b <= 0))
    is_regular = is_positive & ((jnp.isfinite(a) & jnp.isfinite(b)) | is_end)
    return jnp.where(is_regular, jnp.where(is_end, x, jsp.betainc(a, b, x)), jnp.nan)


def _erfinv(x: Value) -> Value:
    """Compute the inverse error function; 0 for both zeros, as in TensorFlow."""
    return jnp.where(x == 0, jnp.zeros_like(x), lax.erf_inv(x))


def _is_pole(x: Value) -> Value:
    """Return a mask of the gamma function's poles: zero and the negative integers."""
    return (x <= 0) & (x == jnp.floor(x))


def _digamma(x: Value) -> Value:
    """Compute the digamma function; NaN at its poles, where releases of JAX differ."""
    return jnp.where(_is_pole(x), jnp.nan, lax.digamma(x))


def _polygamma(n: Value, x: Value) -> Value:
    """Compute the polygamma function with TensorFlow's values at its poles and at infinity.

    At a pole, both one-sided limits agree for odd `n` only. At infinity, the value is infinite for
    n = 0, else 0 with the sign of the function's values before it.
    """
    n, x = jnp.broadcast_arrays(n, x)
    is_odd = jnp.fmod(n, 2) == 1
    far = jnp.where(n == 0, jnp.inf, jnp.where(is_odd, 0.0, -0.0))
    is_far = jnp.isposinf(x) & (n >= 0) & (n == jnp.floor(n)) & jnp.isfinite(n)
    value = jnp.where(is_far, far, lax.polygamma(n, x))
    return jnp.where(_is_pole(x), jnp.where(is_odd, jnp.inf, jnp.nan), value).astype(x.dtype)


def _zeta(x: Value, q: Value) -> Value:
    """Compute the Hurwitz zeta function; for infinite `x`, its first term."""
    return jnp.where(jnp.isposinf(x), zeta_at_infinity(jnp, q), jsp.zeta(x, q))


def _expint(x: Value) -> Value:
    """Compute Ei(x) for x >= 0; NaN for negative arguments and where 1 / x is 0, as in TensorFlow.

    JAX's series does not terminate for NaN.
    """
    is_regular = (x > 0) & (x <= 1 / jnp.finfo(x.dtype).tiny)
    value = jsp.expi(jnp.where(is_regular, x, 1))
    return jnp.where(is_regular, value, jnp.where(x == 0, -jnp.inf, jnp.nan))


SPECIAL = functions_in_float32(
    __name__,
    {
        "Erf": lambda: lax.erf,
        "Erfc": lambda: lax.erfc,
        "Erfinv": lambda: _erfinv,
        "Ndtri": lambda: jsp.ndtri,
        "Lgamma": lambda: lax.lgamma,
        "Digamma": lambda: _digamma,
        "Betainc": lambda: _betainc,
        "Zeta": lambda: _zeta,
        "Polygamma": lambda: _polygamma,
        "BesselI0": lambda: jsp.i0,
        "BesselI0e": lambda: jsp.i0e,
        "BesselI1": lambda: jsp.i1,
        "BesselI1e": lambda: jsp.i1e,
        "Expint": lambda: _expint,
        "Spence": lambda: jsp.spence,
    },
    backend="jax",
)
