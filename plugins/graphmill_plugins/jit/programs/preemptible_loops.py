"""Run programs whose loops have an unknown trip count so that a step can be cancelled.

XLA programs cannot be cancelled, so loops with an unknown trip count run with an iteration budget.
When it is used up, all loops end, the results are dropped, and the program runs again with a larger
budget (`LimitedProgram`), which is cheap for short loops. For long loops a `StagedProgram` is used:
each loop is a program of its own, which iterates for some hundredths of a second and is called
again with its carried values. The code before, between and after the loops is compiled separately.
Nested loops cannot be staged.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import step_cancelled
from graphmill_plugins._jax import jax_module

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.spi import ExecutorArgs
    from graphmill.spi.executors import StepStatsCollector
    from graphmill_plugins.jit.programs.loop_split import Stage

_FIRST_LIMIT: Final = 64
_MAX_ITERATIONS: Final = 1 << 27
_GROWTH: Final = 8
_SHORT_NS: Final = 5_000_000  # a shorter run gets a larger budget the next time
_LONG_NS: Final = 50_000_000  # a longer run gets a smaller budget the next time
_MAX_RUN_NS: Final = 500_000_000  # the longest run of a program that has no stages


class IterationBudgetError(Exception):
    """A loop that cannot be cancelled exceeded the largest iteration budget."""


@dataclass(frozen=True, slots=True)
class CountedLoops:
    """The loops of a program whose iterations are noted in traced steps, by their bodies.

    Attributes:
        outermost: the outermost loops that a budget may end, in order; "" for one with a static
            trip count. No loops if `each` lists them.
        each: the loops with counters, if several share a budget or are nested; the result of the
            program before the last one holds their runs and iterations.
        fixed: the static trip counts of the other loops.
    """

    outermost: tuple[str, ...] = ()
    each: tuple[str, ...] = ()
    fixed: tuple[tuple[str, int], ...] = ()

    def renamed(self, names: Mapping[str, str]) -> CountedLoops:
        """Return the same loops under other names; those without a new name are not noted."""
        return CountedLoops(
            tuple(names.get(body, "") for body in self.outermost),
            tuple(names.get(body, "") for body in self.each),
            tuple((names[body], count) for body, count in self.fixed if body in names),
        )

    def note_fixed(self, collector: StepStatsCollector) -> None:
        """Note the iterations of the loops with static trip counts."""
        for body, count in self.fixed:
            collector.note_iterations(body, count)

    def note(self, collector: StepStatsCollector, budget: Any, outputs: Sequence[Any]) -> None:
        """Note the iterations of the other loops, after a limited program has run to its end."""
        if self.each:
            for body, (runs, count) in zip(self.each, np.asarray(outputs[-2]), strict=True):
                collector.note_iterations(body, int(count), int(runs))
        elif len(self.outermost) == 1 and self.outermost[0]:
            count = int(np.asarray(budget)) - int(np.asarray(outputs[-1]))
            collector.note_iterations(self.outermost[0], count)


class StagedProgram:
    """A program whose long loops run as separate programs.

    Args:
        stages: the stages, in order.
        first: the initial values of the slots: constants, and None for the others.
        arguments: slots of the arguments.
        results: slots of the results.

    Threads: any number may run it; the budgets are updated without a lock.
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

    def run(self, step: ExecutorArgs, values: Sequence[Any], loops: CountedLoops) -> list[Any]:
        """Compute the results.

        Args:
            step: the step.
            values: the arguments.
            loops: the loops whose iterations are noted if the step is traced.

        Raises:
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
        """
        slots = list(self._first)
        for slot, value in zip(self._arguments, values, strict=True):
            slots[slot] = value
        bodies = iter(loops.outermost)
        collector = step.stats_collector
        for index, stage in enumerate(self._stages):
            inputs = [slots[slot] for slot in stage.inputs]
            if stage.loop is None:
                outputs = stage.call(*inputs)
            else:
                outputs, count = self._iterated(index, stage, inputs, step)
                if (body := next(bodies, "")) and collector is not None:
                    collector.note_iterations(body, count)
            for slot, value in zip(stage.outputs, outputs, strict=True):
                slots[slot] = value
            for slot in stage.last_read:
                slots[slot] = None
        return [slots[slot] for slot in self._results]

    def _iterated(
        self, index: int, stage: Stage, inputs: list[Any], step: ExecutorArgs
    ) -> tuple[Any, int]:
        """Run a loop to its end; return its outputs and the number of its iterations."""
        loop, count = stage.loop, 0
        assert loop is not None
        while True:
            limit = self._limits[index]
            inputs[loop.limit], inputs[loop.count] = np.int32(limit), np.int32(0)
            began = perf_counter_ns()
            outputs = stage.call(*inputs)
            num_iterations = int(np.asarray(outputs[loop.counted]))
            count += num_iterations
            if num_iterations < limit:
                return outputs, count
            self._limits[index] = _next_limit(limit, perf_counter_ns() - began)
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            inputs[loop.carried : loop.carried + len(outputs)] = outputs


def _next_limit(limit: int, nanoseconds: int) -> int:
    """Return the iteration budget of the next call."""
    if nanoseconds < _SHORT_NS:
        return min(limit * _GROWTH, _MAX_ITERATIONS)
    return max(limit // 4, 1) if nanoseconds > _LONG_NS else limit


class LimitedProgram:
    """A program whose long loops share one iteration budget.

    Its last result is the number of iterations that are left of the budget.

    Args:
        call: takes constants, the other arguments, and the budget.
        staged: the staged form of the program; None if it has none.
        device: the JAX device that it runs on.

    Attributes:
        call: as given.
        iterations: the budget, as a JAX array.
        is_long: whether only the staged form is run from now on.
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
        self._limit = iterations
        self.iterations = jax_module().device_put(np.int32(iterations), self._device)

    def retry(
        self,
        step: ExecutorArgs,
        constants: Sequence[Any],
        values: Sequence[Any],
        loops: CountedLoops,
    ) -> Sequence[Any]:
        """Compute the results after the budget was used up.

        Args:
            step: the step.
            constants, values: the arguments.
            loops: the loops whose iterations are noted if the step is traced.

        Raises:
            IterationBudgetError: the program has nested loops and would run for too long.
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
        """
        while not self.is_long:
            limit = self._limit
            began = perf_counter_ns()
            budget = self.iterations
            outputs = self.call(constants, *values, budget)
            if np.asarray(outputs[-1]):
                if step.stats_collector is not None:
                    loops.note(step.stats_collector, budget, outputs)
                return outputs
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            took = perf_counter_ns() - began
            if took < (_LONG_NS if self._staged else _MAX_RUN_NS) and limit < _MAX_ITERATIONS:
                self._set(limit * (_GROWTH if took < _SHORT_NS else 2))
            elif self._staged is not None:
                self.is_long = True
            else:
                raise IterationBudgetError(
                    f"its nested loops make more than {limit} iterations, and a compiled program "
                    "with nested loops cannot be cancelled"
                )
        assert self._staged is not None
        return self._staged.run(step, [*constants, *values], loops)
