"""Run programs whose loops have an unknown trip count so that a step can be cancelled.

XLA programs cannot be cancelled, so loops with an unknown trip count run with an iteration budget.
When it is used up, all loops end, the results are dropped, and the program runs again with a larger
budget (`LimitedProgram`), which is cheap for short loops. For long loops a `StagedProgram` takes
over: each loop is a program of its own, which iterates for some hundredths of a second and is
called again with its carried values; the code before, between and after the loops is compiled
separately. Nested loops cannot be staged.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import step_cancelled
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.spi import ExecutorArgs
    from graphmill_plugins.jit.programs.loop_split import Stage

_FIRST_LIMIT: Final = 64
_MOST_ITERATIONS: Final = 1 << 27
_GROWTH: Final = 8
_SHORT_NS: Final = 5_000_000  # a program that takes less gets a larger budget the next time …
_LONG_NS: Final = 50_000_000  # … and one that takes more, a smaller one
_LONGEST_NS: Final = 500_000_000  # of what can only be run again as a whole


class IterationBudgetError(Exception):
    """A loop that cannot be cancelled exceeded the largest iteration budget."""


class StagedProgram:
    """A program whose long loops run as programs of their own.

    Args:
        stages: in their order.
        first: what is in the slots before the first: values that stay, None for arguments.
        arguments: slots of the arguments.
        results: slots of the results.

    Threads: any number may run it; the budgets are noted without a lock.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        first: Sequence[Any],
        arguments: Sequence[int],
        results: Sequence[int],
    ) -> None:
        self._stages = tuple(stages)
        self._first = list(first)
        self._arguments = tuple(arguments)
        self._results = tuple(results)
        self._limits = [_FIRST_LIMIT] * len(self._stages)

    def run(self, step: ExecutorArgs, values: Sequence[Any]) -> list[Any]:
        """Compute the results.

        Raises:
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
        """
        held = list(self._first)
        for slot, value in zip(self._arguments, values, strict=True):
            held[slot] = value
        for number, stage in enumerate(self._stages):
            given = [held[slot] for slot in stage.inputs]
            if stage.loop is None:
                outputs = stage.call(*given)
            else:
                outputs = self._iterated(number, stage, given, step)
            for slot, value in zip(stage.outputs, outputs, strict=True):
                held[slot] = value
            for slot in stage.last_read:
                held[slot] = None
        return [held[slot] for slot in self._results]

    def _iterated(self, number: int, stage: Stage, given: list[Any], step: ExecutorArgs) -> Any:
        """Run a loop to its end."""
        loop = stage.loop
        assert loop is not None
        while True:
            limit = self._limits[number]
            given[loop.limit], given[loop.count] = np.int32(limit), np.int32(0)
            began = perf_counter_ns()
            outputs = stage.call(*given)
            if np.asarray(outputs[loop.counted]) < limit:
                return outputs
            self._limits[number] = _worth(limit, perf_counter_ns() - began)
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            given[loop.carried : loop.carried + len(outputs)] = outputs


def _worth(limit: int, nanoseconds: int) -> int:
    """Return the iteration budget of the next call."""
    if nanoseconds < _SHORT_NS:
        return min(limit * _GROWTH, _MOST_ITERATIONS)
    return max(limit // 4, 1) if nanoseconds > _LONG_NS else limit


class LimitedProgram:
    """A program whose long loops share one iteration budget.

    Its last result tells whether any of it is left.

    Args:
        call: takes constants, the other arguments, and the budget.
        staged: the same in stages, if there is such a form.
        device: of JAX, where it runs.

    Attributes:
        call: as given.
        iterations: the budget, as an array of JAX.
        is_long: whether only the form in stages is to be run any more.
    """

    def __init__(
        self, call: Callable[..., Sequence[Any]], staged: StagedProgram | None, device: Any
    ) -> None:
        self.call = call
        self._device = device
        self._staged = staged
        self.is_long = False
        self._set(_FIRST_LIMIT)

    def _set(self, iterations: int) -> None:
        self._number = iterations
        self.iterations = jax_module().device_put(np.int32(iterations), self._device)

    def go_on(
        self, step: ExecutorArgs, constants: Sequence[Any], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Compute the results after the budget was used up.

        Raises:
            IterationBudgetError: it would have to be run for too long.
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
        """
        while not self.is_long:
            number = self._number
            began = perf_counter_ns()
            outputs = self.call(constants, *values, self.iterations)
            if np.asarray(outputs[-1]):
                return outputs
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            took = perf_counter_ns() - began
            if took < (_LONG_NS if self._staged else _LONGEST_NS) and number < _MOST_ITERATIONS:
                self._set(number * (_GROWTH if took < _SHORT_NS else 2))
            elif self._staged is not None:
                self.is_long = True
            else:
                raise IterationBudgetError(
                    f"nested loops make more than {number} iterations and could not be interrupted"
                )
        assert self._staged is not None
        return self._staged.run(step, [*constants, *values])
