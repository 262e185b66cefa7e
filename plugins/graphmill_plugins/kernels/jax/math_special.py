"""Special functions on JAX. Narrow floats are computed in float32.

The Bessel functions J, Y and K and the integrals of Dawson and Fresnel have no form in JAX: nodes
with them run on NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import jax.numpy as jnp
import jax.scipy.special as jsp
from jax import lax

from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.typing import Value


def _positive(function: Callable[[Value, Value], Value], a: Value, x: Value) -> Value:
    """Compute an incomplete gamma function; nan for a <= 0."""
    a, x = jnp.broadcast_arrays(a, x)
    return jnp.where(a > 0, function(a, x), jnp.nan)


SPECIAL = functions_in_float32(
    __name__,
    {
        "Erf": lambda: lax.erf,
        "Erfc": lambda: lax.erfc,
        "Erfinv": lambda: lax.erf_inv,
        "Ndtri": lambda: jsp.ndtri,
        "Lgamma": lambda: lax.lgamma,
        "Digamma": lambda: lax.digamma,
        "Igamma": lambda: partial(_positive, lax.igamma),
        "Igammac": lambda: partial(_positive, lax.igammac),
        "IgammaGradA": lambda: lax.igamma_grad_a,
        "Betainc": lambda: jsp.betainc,
        "Zeta": lambda: jsp.zeta,
        "Polygamma": lambda: lax.polygamma,
        "BesselI0": lambda: jsp.i0,
        "BesselI0e": lambda: jsp.i0e,
        "BesselI1": lambda: jsp.i1,
        "BesselI1e": lambda: jsp.i1e,
        "Expint": lambda: jsp.expi,
        "Spence": lambda: jsp.spence,
    },
    backend="jax",
)
