"""Rows of traced variables: reading the value, and the condition that all rows are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.known_values import GUARD

if TYPE_CHECKING:
    from graphmill_plugins.jit.tracing.values import State


def checked_rows(handle: Any, state: State) -> Any:
    """Return the value of a variable that has rows.

    Raises:
        NotTraceable: it is no variable, or a scalar.
    """
    if not isinstance(handle, TracedVariable):
        raise NotTraceable("it reads no variable")
    held = state[handle]
    if not np.ndim(held):
        raise NotTraceable("the variable has no rows")
    return held


def require_rows(held: Any, indices: Any, state: State) -> None:
    """Have compiled code check that a value has all the rows that indices name."""
    jnp = jax_module().numpy
    holds = jnp.all((indices >= 0) & (indices < held.shape[0]))
    state[GUARD] = state[GUARD] & holds
