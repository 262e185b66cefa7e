"""Trace loops with a bound as `lax.scan`, which has a gradient in reverse mode."""

from __future__ import annotations

from typing import Any

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tracing.iteration_limit import Limit


class ScannedLoops(Limit):
    """Traces each loop as a scan over the largest number of iterations it can have.

    Iterations after the end of the loop leave its values as they are. A loop whose trip count is
    unknown, without a given maximum, is a `lax.while_loop`, which JAX differentiates in forward
    mode only.

    Args:
        max_iterations: the maximum for loops whose trip count is unknown; None for none.
    """

    takes_every_loop = True

    def __init__(self, max_iterations: int | None = None) -> None:
        super().__init__(None)
        self._max_iterations = max_iterations

    def loop(self, test: Any, iteration: Any, first: Any, trips: int | None) -> Any:
        """Trace a loop.

        Args:
            test: returns whether to continue.
            iteration: returns the next values.
            first: the first values.
            trips: the largest number of iterations if it is static; None otherwise.
        """
        lax = jax_module().lax
        bound = self._max_iterations if trips is None else trips
        if bound is None:
            return lax.while_loop(test, iteration, first)

        def step(carry: Any, _: Any) -> tuple[Any, None]:
            return lax.cond(test(carry), iteration, lambda same: same, carry), None

        return lax.scan(step, first, None, length=bound)[0]

    def ended(self, test: Any, last: Any, trips: int | None) -> Any:
        """Return whether a loop has ended within the maximum; None if it cannot need more."""
        return None if self._max_iterations is None or trips is not None else ~test(last)
