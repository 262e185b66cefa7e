"""Math ops that map to a JAX primitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._support import in_float32
from graphmill_plugins.kernels._tables import functions_in_float32
from graphmill_plugins.kernels.math.cumulative import scan

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value


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


@kernel("CumulativeLogsumexp", backend="jax", static=("axis",), make=True)
def cumulative_logsumexp(
    xp: ArrayNamespace, T: np.dtype[Any], exclusive: bool, reverse: bool
) -> Callable[[Value, Value], Value]:
    """Compute log(cumsum(exp(x))) stably; an exclusive scan begins with minus infinity."""

    def accumulate(x: Value, axis: int) -> Value:
        return in_float32(T, lambda wide: lax.cumlogsumexp(wide, axis))(x)

    return scan(xp, accumulate, exclusive, reverse, T.type(-np.inf))
