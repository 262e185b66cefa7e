"""Math ops that map to a JAX primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from graphmill.spi import Value


# XLA:CPU does not vectorize these for float16, which takes three to four times as long.
HALF_FUNCTIONS = functions_in_float32(
    __name__,
    {"Exp": lambda: jnp.exp, "Log": lambda: jnp.log, "Sqrt": lambda: jnp.sqrt},
    backend="jax",
    types=(dtypes.float16,),
)


@kernel("Complex", backend="jax")
def complex_(real: Value, imag: Value) -> Value:
    """Combine real and imaginary parts into complex numbers, with broadcasting."""
    return lax.complex(*jnp.broadcast_arrays(real, imag))
