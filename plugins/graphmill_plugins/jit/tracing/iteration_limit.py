"""Iteration budgets: let loops end early, because XLA programs cannot be cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill_plugins.jit.tracing.values import State

ITERATIONS_LEFT: Final = "iterations_left"
"""State key of the iteration budget that all long loops share."""


@dataclass(frozen=True, slots=True)
class _Count:
    """State key of a counter for the loops with a body: of their runs, or of their iterations."""

    body: str
    is_runs: bool


def start_counts(bodies: Sequence[str], state: State) -> None:
    """Add counters for the loops with these bodies, which share an iteration budget."""
    for body in bodies:
        state[_Count(body, True)] = state[_Count(body, False)] = np.int32(0)


def count_run(body: str, before: State, after: State) -> None:
    """Add a run of a loop to its counters, if it has any.

    The run has used as many iterations of the budget as it and its inner loops have made; the
    counters of the inner loops say how many of these are theirs. So nothing is counted within an
    iteration.
    """
    runs, iterations = _Count(body, True), _Count(body, False)
    if runs not in before:
        return
    num_iterations = before[ITERATIONS_LEFT] - after[ITERATIONS_LEFT]
    for key, count in after.items():
        if isinstance(key, _Count) and not key.is_runs and count is not before[key]:
            num_iterations = num_iterations - (count - before[key])
    after[iterations] = after[iterations] + num_iterations
    after[runs] = after[runs] + np.int32(1)


def counts_of(bodies: Sequence[str], state: State) -> Any:
    """Return the traced counters of loops as an array `[loops, 2]`: runs, then iterations."""
    numpy = jax_module().numpy
    counts = [state[_Count(body, is_runs)] for body in bodies for is_runs in (True, False)]
    return numpy.stack([numpy.asarray(count) for count in counts]).reshape(-1, 2)


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

        def cond_fun(carry: Any) -> Any:
            return (carry[1] < self._iterations) & test(carry[0])

        def body_fun(carry: Any) -> Any:
            return iteration(carry[0]), carry[1] + 1

        whole = jax_module().lax.while_loop(cond_fun, body_fun, (first, np.int32(0)))
        self.counts.append(whole[1])
        return whole[0]

    def ended(self, test: Any, last: Any, trips: int | None) -> Any:
        """Return whether a loop has ended, as a traced bool; None if the caller determines it."""
        del test, last, trips  # the caller compares `counts` with the budget
