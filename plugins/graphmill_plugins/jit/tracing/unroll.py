"""Unroll loops whose values change their shapes between iterations.

The values of an XLA loop have fixed shapes. A decoder often appends to a sequence in each
iteration; if the trip count is static, the program can contain all iterations one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.tracing.static_values import is_static

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill_plugins.jit.tracing.values import Function, State

MAX_UNROLLED_ITERATIONS: Final = 2_000
"""Maximum number of nodes traced for all iterations of a loop; more take too long to compile."""


def unrolled(
    cond: Function,
    body: Function,
    args: Sequence[Any],
    state: State,
    num_traced: Callable[[], int],
    why: str = "",
) -> tuple[list[Any], State]:
    """Trace a loop as a sequence of iterations.

    Args:
        cond, body, args, state: as for `loops.trace_while`.
        num_traced: returns how many nodes were traced so far.
        why: prefix for messages: why the loop cannot be an XLA loop.

    Returns:
        The last values, and the state after.

    Raises:
        NotTraceable: the trip count is unknown or too large.
    """
    limit = num_traced() + MAX_UNROLLED_ITERATIONS
    values, after = list(args), dict(state)
    while True:
        condition, after = cond(values, after)
        if not is_static(condition[0]):
            raise NotTraceable(f"{why}the trip count of a loop is unknown")
        if not _holds(condition[0]):
            return values, after
        if num_traced() >= limit:
            raise NotTraceable(f"{why}a loop has too many iterations to unroll")
        values, after = body(values, after)


def _holds(pred: Any) -> bool:
    return bool(np.size(pred)) if np.ndim(pred) else bool(pred)
