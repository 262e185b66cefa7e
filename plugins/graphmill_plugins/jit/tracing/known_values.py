"""What is known of a value while it is traced, and whether indices are in range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable

if TYPE_CHECKING:
    from collections.abc import Hashable

GUARD = "all indices are in range"
"""Key of the state for a bool: whether all indices were in range so far.

The interpreter raises at an index out of range; compiled code cannot. Where the state has this key
it is kept, so that the step can be run again by the interpreter if it does not hold at the end.
"""


def is_known(value: Any) -> bool:
    """Return whether a value is known while tracing."""
    return isinstance(value, (np.ndarray, np.generic))


def is_outside(index: Any, size: int) -> bool:
    """Return whether an index, or one of several, is known to be out of range."""
    if not is_known(index):
        return False
    known: Any = index
    return not bool(np.all((known >= 0) & (known < size)))


def known_int(value: Any, what: str) -> int:
    """Return an integer that must be known while tracing.

    Raises:
        NotTraceable: it is not.
    """
    if not is_known(value):
        raise NotTraceable(f"{what} is computed in the same program")
    if value.ndim:
        raise NotTraceable(f"{what} is no scalar")
    return int(value)


def guard(state: dict[Hashable, Any], index: Any, size: Any) -> None:
    """Note whether an index, or all of several, is in range."""
    if GUARD in state:
        numpy = jax_module().numpy
        state[GUARD] = state[GUARD] & numpy.all((index >= 0) & (index < size))
