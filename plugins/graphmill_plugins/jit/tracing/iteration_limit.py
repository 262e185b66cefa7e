"""Iteration budgets: let loops end early, because XLA programs cannot be cancelled."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module

ITERATIONS_LEFT: Final = "iterations_left"
"""State key of the iteration budget that all long loops share."""


class Limit:
    """Ends loops after some iterations so that the host can check for cancellation.

    Args:
        iterations: the maximum number of iterations of a loop, traced.

    Attributes:
        counts: the number of iterations of each loop, traced.
        condition_changes_state: whether the condition of a loop has effects.
    """

    def __init__(self, iterations: Any) -> None:
        self._iterations = iterations
        self.counts: list[Any] = []
        self.condition_changes_state = False

    takes_every_loop = False
    """Whether short and inner loops are traced by it, too."""

    def loop(self, test: Any, iteration: Any, first: Any, trips: int | None) -> Any:
        """Trace a JAX loop that may end early, and record its number of iterations."""
        del trips  # a while loop needs no bound

        def go_on(carry: Any) -> Any:
            return (carry[1] < self._iterations) & test(carry[0])

        def iterate_and_count(carry: Any) -> Any:
            return iteration(carry[0]), carry[1] + 1

        whole = jax_module().lax.while_loop(go_on, iterate_and_count, (first, np.int32(0)))
        self.counts.append(whole[1])
        return whole[0]

    def ended(self, test: Any, last: Any, trips: int | None) -> Any:
        """Return whether a loop has ended, as a traced bool; None if the caller determines it."""
        del test, last, trips  # the caller compares `counts` with the budget
