"""Complex numbers from parts, powers of integers, functions of float16 on JAX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, lax
from graphmill_plugins.kernels._tables import functions_in_float32

if TYPE_CHECKING:
    from graphmill.spi import Value

_BITS: Final = 6  # of exponents, whose squarings XLA fuses; few exponents have more

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


@kernel("Pow", backend="jax", types={"T": dtypes.INTEGER})
def integer_power(x: Value, y: Value) -> Value:
    """Raise integers to powers that are not negative, modulo the range of their type.

    JAX's function looks at the lowest six bits of an exponent only.
    """
    base, exponent = jnp.broadcast_arrays(x, y)

    def square(state: tuple[Value, Value, Value]) -> tuple[Value, Value, Value]:
        power, base, exponent = state
        return jnp.where(exponent & 1 == 1, power * base, power), base * base, exponent >> 1

    state = jnp.ones_like(base), base, exponent
    for _ in range(_BITS):
        state = square(state)
    return lax.while_loop(lambda state: jnp.any(state[2] > 0), square, state)[0]
