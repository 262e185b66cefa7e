"""Donation: let programs write new variable values into the memory of the old ones.

XLA does that with an argument that is donated to it, unless NumPy shows its memory, too: then it
makes a copy first. So the value is taken out of the variable for as long as the program runs,
provided that nobody else holds it: not the value, nor the array of JAX whose memory it shows. Who
reads it meanwhile waits for the variable's lock (`runtime/resources/exclusive_update.py`). A value
that others hold is not overwritten.

What is written is written: what may fail is checked before (`early_check`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import DataLossError
from graphmill.spi.compilers import acquire, release, set_value
from graphmill.spi.process import references_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Variable
    from graphmill_plugins.jit.programs.memory import HostMemory

LEAST_BYTES: Final = 64 << 10
"""Of a variable that is donated: for smaller ones taking and giving back costs what it saves."""


class Loan:
    """The donated values of variables during a call.

    Threads: the caller holds the locks of all variables that the program takes, these and others,
    all in the one order of locks: who waits here for a value must not hold what is waited for.

    Args:
        memory: where the values are.
        variables: those whose values are donated.
        given: the program's arguments; an array that others hold gives way to a copy.
        places: of their values among these.
    """

    def __init__(
        self,
        memory: HostMemory,
        variables: Sequence[Variable],
        given: list[Any],
        places: Sequence[int],
    ) -> None:
        self._memory = memory
        self._variables = variables
        self._given = given
        self._places = places
        self._taken = [variable for variable in variables if acquire(variable)]
        self._out: list[int] = []
        for number, place in enumerate(places):
            if len(self._taken) == len(variables) and self._take_out(variables[number], place):
                self._out.append(number)
            else:
                given[place] = memory.donatable_copy(given[place])

    def _take_out(self, variable: Variable, place: int) -> bool:
        """Take a value out of its variable if nothing else references it; return whether it did."""
        if not self._memory.holds_array_alone(variable, self._given[place]):
            return False
        set_value(variable, None)
        if references_in(self._given, place) <= _ONE_LIST:
            return True
        self._put_back(variable, self._given[place])
        return False

    def _put_back(self, variable: Variable, array: Any) -> None:
        self._memory.replace(variable, self._memory.as_value(array), array)

    def replace(self, values: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Set the new values.

        Args:
            values: as the device has them.
            arrays: as JAX has them.
        """
        self._out.clear()
        for variable, value, array in zip(self._variables, values, arrays, strict=True):
            self._memory.replace(variable, value, array)

    def end(self) -> None:
        """Release the variables; those that were not replaced get their old values back.

        Raises:
            DataLossError: JAX failed after it had begun to write. That it can is not known.
        """
        lost = []
        for number in self._out:
            variable, array = self._variables[number], self._given[self._places[number]]
            if array.is_deleted():
                lost.append(variable.name)
            else:
                self._put_back(variable, array)
        for variable in self._taken:
            release(variable)
        if lost:
            raise DataLossError(
                f"the values of {', '.join(lost)} are lost: a compiled program failed while it "
                "wrote them; restore them from a checkpoint"
            )


_ONE_LIST: Final = references_in([np.empty(2)], 0)
