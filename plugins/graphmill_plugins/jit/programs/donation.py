"""Donation: let programs write new variable values into the memory of the old ones.

XLA reuses the memory of a donated argument, but copies it first if a NumPy view of it exists. So
the value is removed from the variable while the program runs, provided that nothing else references
the value or its JAX array; readers wait for the variable's lock
(`runtime/resources/exclusive_update.py`). A value with other references is not overwritten.

Overwritten values cannot be restored, so all checks run before the program (`guard_program_for`).
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

MIN_BYTES: Final = 64 << 10
"""The minimum size in bytes of a donated variable; smaller ones are not worth the bookkeeping."""


class DonatedValues:
    """The donated values of variables during a call.

    Threads: the caller holds the locks of all variables that the program reads or writes, acquired
    in the global lock order, so that waiting here for a value cannot deadlock.

    Args:
        memory: the memory of the values.
        variables: the variables whose values are donated.
        arguments: the program's arguments; an array with other references is replaced by a copy.
        positions: the positions of the donated values among the arguments.
    """

    def __init__(
        self,
        memory: HostMemory,
        variables: Sequence[Variable],
        arguments: list[Any],
        positions: Sequence[int],
    ) -> None:
        self._memory = memory
        self._variables = variables
        self._arguments = arguments
        self._positions = positions
        self._acquired = [variable for variable in variables if acquire(variable)]
        self._removed: list[int] = []  # indices of the variables without a value
        for index, position in enumerate(positions):
            all_acquired = len(self._acquired) == len(variables)
            if all_acquired and self._remove(variables[index], position):
                self._removed.append(index)
            else:
                arguments[position] = memory.donatable_copy(arguments[position])

    def _remove(self, variable: Variable, position: int) -> bool:
        """Remove a variable's value if nothing else references it; return whether it did."""
        if not self._memory.holds_array_alone(variable, self._arguments[position]):
            return False
        set_value(variable, None)
        if references_in(self._arguments, position) <= _ONE_LIST:
            return True
        self._put_back(variable, self._arguments[position])
        return False

    def _put_back(self, variable: Variable, array: Any) -> None:
        self._memory.replace(variable, self._memory.as_value(array), array)

    def replace(self, values: Sequence[Any], arrays: Sequence[Any]) -> None:
        """Set the new values.

        Args:
            values: the values of the device.
            arrays: the JAX arrays of these values.
        """
        self._removed.clear()
        for variable, value, array in zip(self._variables, values, arrays, strict=True):
            self._memory.replace(variable, value, array)

    def end(self) -> None:
        """Release the variables; those that were not replaced get their old values back.

        Raises:
            DataLossError: JAX failed after it had begun to write; this has not been observed.
        """
        lost = []
        for index in self._removed:
            variable, array = self._variables[index], self._arguments[self._positions[index]]
            if array.is_deleted():
                lost.append(variable.name)
            else:
                self._put_back(variable, array)
        for variable in self._acquired:
            release(variable)
        if lost:
            raise DataLossError(
                f"the values of {', '.join(lost)} are lost: a compiled program failed while it "
                "wrote them; restore them from a checkpoint"
            )


_ONE_LIST: Final = references_in([np.empty(2)], 0)
