"""Check that a traced variable has rows, and that row indices are in range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.static_values import GUARD

if TYPE_CHECKING:
    from graphmill_plugins.jit.tracing.values import State


def value_with_rows(handle: Any, state: State) -> Any:
    """Return the value of a variable that is not a scalar.

    Raises:
        NotTraceable: it is not a variable, or its value is a scalar.
    """
    if not isinstance(handle, TracedVariable):
        raise NotTraceable("it does not read a variable")
    value = state[handle]
    if not np.ndim(value):
        raise NotTraceable("the variable is a scalar, which has no rows")
    return value


def require_rows_in_range(value: Any, indices: Any, state: State) -> None:
    """Add to the guard that all row indices are in range of a value."""
    jnp = jax_module().numpy
    holds = jnp.all((indices >= 0) & (indices < value.shape[0]))
    state[GUARD] = state[GUARD] & holds
