"""Special functions on JAX. Narrow floats are computed in float32.

The Bessel functions J, Y and K and the integrals of Dawson and Fresnel have no form in JAX: nodes
with them run on NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from graphmill_plugins._lazy_jax import jnp, jsp, lax
from graphmill_plugins.kernels._tables import functions_in_float32
from graphmill_plugins.kernels.math.special import check_betainc

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.typing import Value


def _igamma_grad(a: Value, x: Value) -> Value:
    return lax.igamma_grad_a(*jnp.broadcast_arrays(a, x))


def _incomplete_gamma(
    function: Callable[[Value, Value], Value], at_zero: float, a: Value, x: Value
) -> Value:
    """Compute an incomplete gamma function with TensorFlow's values at the edges.

    It is nan for a <= 0, except that of x = 0 the lower one is 0; for a infinite as for x = 0.
    """
    a, x = jnp.broadcast_arrays(a, x)
    value = jnp.where(jnp.isinf(a), at_zero, function(a, x))
    value = jnp.where(a > 0, value, jnp.nan)
    return jnp.where((x == 0) & (at_zero == 0), 0, value)


def _betainc(a: Value, b: Value, x: Value) -> Value:
    check_betainc(a, b, x)
    return jnp.where((a > 0) & (b > 0), jsp.betainc(a, b, x), jnp.nan)


def _expint(x: Value) -> Value:
    """Compute Ei(x) for x >= 0; nan for negative arguments, as in TensorFlow."""
    return jnp.where(x < 0, jnp.nan, jnp.where(x == 0, -jnp.inf, jsp.expi(x)))


SPECIAL = functions_in_float32(
    __name__,
    {
        "Erf": lambda: lax.erf,
        "Erfc": lambda: lax.erfc,
        "Erfinv": lambda: lax.erf_inv,
        "Ndtri": lambda: jsp.ndtri,
        "Lgamma": lambda: lax.lgamma,
        "Digamma": lambda: lax.digamma,
        "Igamma": lambda: partial(_incomplete_gamma, lax.igamma, 0.0),
        "Igammac": lambda: partial(_incomplete_gamma, lax.igammac, 1.0),
        "IgammaGradA": lambda: _igamma_grad,
        "Betainc": lambda: _betainc,
        "Zeta": lambda: jsp.zeta,
        "Polygamma": lambda: lax.polygamma,
        "BesselI0": lambda: jsp.i0,
        "BesselI0e": lambda: jsp.i0e,
        "BesselI1": lambda: jsp.i1,
        "BesselI1e": lambda: jsp.i1e,
        "Expint": lambda: _expint,
        "Spence": lambda: jsp.spence,
    },
    backend="jax",
)
