"""Programs with loops that are not known to end: they come back now and then to be stopped.

Nothing stops a program of XLA's before its end. So one with loops that nobody knows the end of has
a budget of turns. When it is used up all loops end, the results are dropped, and the program runs
again with more (`LimitedProgram`). That costs short loops next to nothing. Where it takes long, a
second form takes over (`StagedProgram`): each loop is a program of its own, which turns for some
hundredths of a second and is called again with what it carries; what comes before, between and
after loops are others. Loops within loops have no such form.
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
_MOST_TURNS: Final = 1 << 27
_GROWTH: Final = 8
_SHORT_NS: Final = 5_000_000  # a program that turns for less turns more often the next time …
_LONG_NS: Final = 50_000_000  # … and for more, less often
_LONGEST_NS: Final = 500_000_000  # of what can only be run again as a whole


class TurnsUsedUpError(Exception):
    """A loop that nothing could stop goes on for too long."""


class StagedProgram:
    """A program whose long loops are programs of their own.

    Args:
        stages: in their order.
        first: what is in the slots before the first: values that stay, None for arguments.
        arguments: slots of the arguments.
        results: slots of the results.

    Threads: any number may run it; how many turns are worth it is noted without a lock.
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
            if stage.turns is None:
                outputs = stage.call(*given)
            else:
                outputs = self._turned(number, stage, given, step)
            for slot, value in zip(stage.outputs, outputs, strict=True):
                held[slot] = value
            for slot in stage.last_read:
                held[slot] = None
        return [held[slot] for slot in self._results]

    def _turned(self, number: int, stage: Stage, given: list[Any], step: ExecutorArgs) -> Any:
        """Let a loop turn until it ends."""
        turns = stage.turns
        assert turns is not None
        while True:
            limit = self._limits[number]
            given[turns.limit], given[turns.count] = np.int32(limit), np.int32(0)
            began = perf_counter_ns()
            outputs = stage.call(*given)
            if np.asarray(outputs[turns.counted]) < limit:
                return outputs
            self._limits[number] = _worth(limit, perf_counter_ns() - began)
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            given[turns.carried : turns.carried + len(outputs)] = outputs


def _worth(limit: int, nanoseconds: int) -> int:
    """Return how many turns a program is to make the next time."""
    if nanoseconds < _SHORT_NS:
        return min(limit * _GROWTH, _MOST_TURNS)
    return max(limit // 4, 1) if nanoseconds > _LONG_NS else limit


class LimitedProgram:
    """A program all of whose long loops make so many turns at most.

    Its last result tells whether any are left.

    Args:
        call: takes constants, the other arguments, and the number of turns.
        staged: the same in stages, if there is such a form.
        device: of JAX, where it runs.

    Attributes:
        call: as given.
        turns: how many it makes, as an array of JAX.
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

    def _set(self, turns: int) -> None:
        self._number = turns
        self.turns = jax_module().device_put(np.int32(turns), self._device)

    def go_on(
        self, step: ExecutorArgs, constants: Sequence[Any], values: Sequence[Any]
    ) -> Sequence[Any]:
        """Compute the results where turns did not suffice.

        Raises:
            TurnsUsedUpError: it would have to be run for too long.
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
        """
        while not self.is_long:
            number = self._number
            began = perf_counter_ns()
            outputs = self.call(constants, *values, self.turns)
            if np.asarray(outputs[-1]):
                return outputs
            if step.is_cancelled:
                raise step_cancelled(step.cancel_reason())
            took = perf_counter_ns() - began
            if took < (_LONG_NS if self._staged else _LONGEST_NS) and number < _MOST_TURNS:
                self._set(number * (_GROWTH if took < _SHORT_NS else 2))
            elif self._staged is not None:
                self.is_long = True
            else:
                raise TurnsUsedUpError(
                    f"loops within others make more than {number} turns, and nothing could stop "
                    "them"
                )
        assert self._staged is not None
        return self._staged.run(step, [*constants, *values])
