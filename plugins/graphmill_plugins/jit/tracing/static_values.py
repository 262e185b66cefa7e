"""Distinguish static values from traced ones, and guard that indices are in range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable

if TYPE_CHECKING:
    from collections.abc import Hashable

GUARD: Final = "indices_in_range"
"""State key of a bool: whether all indices have been in range so far.

The interpreter raises for an index out of range; compiled code cannot. So the program also computes
this guard, and if it is false, the interpreter runs the nodes again.
"""


def is_static(value: Any) -> bool:
    """Return whether a value is static: a NumPy array, not a tracer."""
    return isinstance(value, (np.ndarray, np.generic))


def is_outside(index: Any, size: int) -> bool:
    """Return whether indices are static and any of them is out of range."""
    if not is_static(index):
        return False
    static: Any = index
    return not bool(np.all((static >= 0) & (static < size)))


def static_int(value: Any, subject: str) -> int:
    """Return an integer that must be static.

    Raises:
        NotTraceable: it is traced, or not a scalar.
    """
    if not is_static(value):
        raise NotTraceable(f"{subject} is computed in the same program")
    if value.ndim:
        raise NotTraceable(f"{subject} is not a scalar")
    return int(value)


def guard(state: dict[Hashable, Any], index: Any, size: Any) -> None:
    """Add to the guard that all indices are in range."""
    if GUARD in state:
        numpy = jax_module().numpy
        state[GUARD] = state[GUARD] & numpy.all((index >= 0) & (index < size))
