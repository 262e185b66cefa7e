"""A kernel for JAX: imported only for devices that compute with it."""

from __future__ import annotations

import jax.numpy as jnp

from graphmill.spi import kernel


@kernel("Downstream>SoftShrink", backend="jax")
def soft_shrink(xp, x, *, margin):
    return jnp.where(x > margin, x - margin, jnp.where(x < -margin, x + margin, 0)).astype(x.dtype)
