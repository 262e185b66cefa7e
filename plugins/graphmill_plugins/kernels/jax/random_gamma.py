"""RandomGammaGrad on JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp
from graphmill_plugins.kernels.jax.math_gamma import sample_slope

if TYPE_CHECKING:
    from graphmill.spi import Value


@kernel("RandomGammaGrad", backend="jax", types={"T": ["float32", "float64"]})
def random_gamma_grad(alpha: Value, sample: Value) -> Value:
    """Return the derivative of gamma samples with respect to alpha for fixed random numbers."""
    return sample_slope(*jnp.broadcast_arrays(alpha, sample))
