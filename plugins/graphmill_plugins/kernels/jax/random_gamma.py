"""RandomGammaGrad on JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("RandomGammaGrad", backend="jax", types={"T": ["float32", "float64"]})
def random_gamma_grad(alpha: Value, sample: Value) -> Value:
    """Return the derivative of gamma samples with respect to alpha for fixed random numbers."""
    result: Value = lax.random_gamma_grad(*jnp.broadcast_arrays(alpha, sample))
    return result
