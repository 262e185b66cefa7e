"""`CompiledCluster`: a cluster as one XLA call, with variable values as inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.process import DeferredInterrupt
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.pytrees import Flat, unflatten
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.programs.donation import DonatedValues
from graphmill_plugins.jit.programs.preemptible_loops import IterationBudgetError, LimitedProgram
from graphmill_plugins.jit.tracing.elements import FirstRows

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from threading import Lock

    from graphmill.spi import ExecutorArgs, Variable
    from graphmill_plugins.jit.ir.signature import Inputs
    from graphmill_plugins.jit.programs.guard_program import GuardProgram
    from graphmill_plugins.jit.programs.memory import HostMemory

# Of a program that is called: JAX refuses types and layouts of arguments, XLA has no memory, …
_RUN_ERRORS: Final = (
    *(TypeError, ValueError, MemoryError, IterationBudgetError),
    jax_module().errors.JaxRuntimeError,
)
_ACQUIRE: Final = methodcaller("acquire")


class CheckFailedError(Exception):
    """A check failed, so the interpreter must run the step and raise its error."""


class ProgramFailedError(CheckFailedError):
    """The program cannot run for any values; nothing was changed."""


@dataclass(slots=True)
class Layout:
    """The meaning of a program's outputs; filled during tracing.

    The new values of variables come first, so that JAX finds for each the memory of the old one.

    Attributes:
        results: for each output of the cluster its index among the program's outputs, or a static
            value, the variable whose value it is, the first rows of an output (as many as another
            output says), or a pytree of indices and static values.
        written: the variables that get new values, in the order of their slots.
        donated: indices of those whose old values are donated.
        check: evaluates the guard before the program runs; set if values are donated and there is
            a guard.
        is_guarded: whether the output after new values and results is the guard.
        num_traced: the number of traced results.
        donatable: indices of large computed results whose memory the caller may donate later.
        num_loops: the number of outermost loops with an unknown trip count; their iteration counts
            are the last outputs.
        is_limited: whether the last output, besides the guard, says instead that all such loops
            have iterations left.
    """

    results: list[Any]
    written: list[TracedVariable]
    donated: tuple[int, ...] = ()
    check: GuardProgram | None = None
    is_guarded: bool = False
    num_traced: int = 0
    donatable: frozenset[int] = frozenset()
    num_loops: int = 0
    is_limited: bool = False

    @property
    def guard(self) -> int:
        """The index of the output that tells whether all checks held; None if there is none."""
        return len(self.written) + self.num_traced


class CompiledCluster:
    """A cluster compiled for one signature.

    Threads: any number may call it. While variables are replaced their locks are held, in a fixed
    order, so that no update is lost; those of all variables where some are donated.

    Attributes:
        seconds: how long tracing and compiling took.
        num_hoisted: how many operations depend on constants alone and are not in the program.
        is_loaded: whether the program was in the persistent cache.
        cache: what that cache did, in words.
        key: of the inputs that it was compiled for; see `Inputs.key`.
    """

    def __init__(
        self,
        program: Any,
        constants: tuple[Any, ...],
        layout: Layout,
        inputs: Inputs,
        known: frozenset[int],
        memory: HostMemory,
    ) -> None:
        self._limited = program if isinstance(program, LimitedProgram) else None
        self._program: Any = program if self._limited is None else self._limited.call
        is_told_late = layout.is_guarded and layout.check is None
        self._guard = layout.guard if is_told_late else None
        self._constants = constants
        self._layout = layout
        self._inputs = inputs
        self._arrays = [index for index in inputs.arrays if index not in known]
        self._memory = memory
        self._enable_x64 = jax_module().enable_x64
        self._written = [key.slot for key in layout.written]
        self._donated = layout.donated
        self._donors = [len(self._arrays) + self._written[place] for place in layout.donated]
        self.seconds = 0.0
        self.num_hoisted = 0
        self.is_loaded = False
        self.cache = ""
        self.key: Hashable = None

    def __call__(self, values: Sequence[Any], step: ExecutorArgs) -> tuple[Any, ...]:
        """Compute the outputs, and replace the values of variables.

        Args:
            values: one for each input.
            step: whose cancellation ends loops that are not known to end.

        Raises:
            CancelledError, DeadlineExceededError: the step was cancelled; nothing was done.
            CheckFailedError: nothing was done; the interpreter is to do it, and will raise.
            ProgramFailedError: the program cannot be run: no memory, or a variable has got another
                shape meanwhile. Nothing was done either.
        """
        if not self._inputs.handles:
            return self._results(self._run(self._given(values, ()), step), ())
        found = self._inputs.variables(values)
        if found is None:
            raise CheckFailedError
        variables = found[1]
        held = [variables[slot] for slot in self._written]
        locked = {id(variable): variable for variable in (variables if self._donated else held)}
        locks: list[Lock] = []
        try:
            # Without an instruction between: an interrupt leaves no lock behind that is not listed.
            locks.extend(filter(_ACQUIRE, [locked[key].lock for key in sorted(locked)]))
            update = self._update_in_place if self._donated else self._update
            outputs = update(values, variables, held, step)
        finally:
            for lock in locks:
                lock.release()
        return self._results(outputs, variables)

    def _update(
        self,
        values: Sequence[Any],
        variables: Sequence[Variable],
        held: Sequence[Variable],
        step: ExecutorArgs,
    ) -> Sequence[Any]:
        """Run the program, and set the values of `held` to new arrays."""
        outputs = self._run(self._given(values, variables, are_locked=False), step)
        arrays = outputs[: len(held)]
        for variable, value, array in zip(held, self._shown(arrays), arrays, strict=True):
            self._memory.replace(variable, value, array)
        return outputs

    def _update_in_place(
        self,
        values: Sequence[Any],
        variables: Sequence[Variable],
        held: Sequence[Variable],
        step: ExecutorArgs,
    ) -> Sequence[Any]:
        """Run the program with some of the old values donated."""
        given = self._given(values, variables, are_locked=True)
        self._check_first(given)
        donated = self._donated
        with DeferredInterrupt():  # what was written in place must also be set
            donated_values = DonatedValues(
                self._memory, [held[place] for place in donated], given, self._donors
            )
            try:
                outputs = self._run(given, step)
                arrays = outputs[: len(held)]
                shown = self._shown(arrays)
                donated_values.replace(
                    [shown[one] for one in donated], [arrays[one] for one in donated]
                )
            finally:
                donated_values.end()
            for place, variable in enumerate(held):
                if place not in donated:
                    self._memory.replace(variable, shown[place], arrays[place])
        return outputs

    def _check_first(self, given: Sequence[Any]) -> None:
        check = self._layout.check
        if check is None:
            return
        try:
            with self._enable_x64(True):
                is_good = check.holds([*self._constants, *given])
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error
        if not is_good:
            raise CheckFailedError

    def _given(
        self, values: Sequence[Any], variables: Sequence[Variable], *, are_locked: bool = False
    ) -> list[Any]:
        """Return the non-constant arguments of the program."""
        memory = self._memory
        given = [memory.as_argument(values[index]) for index in self._arrays]
        given += [memory.array_of(variable, is_locked=are_locked) for variable in variables]
        if self._inputs.pytrees:
            given += map(memory.as_argument, self._inputs.leaves(values))
        return given

    def _run(self, given: Sequence[Any], step: ExecutorArgs) -> Sequence[Any]:
        try:
            with self._enable_x64(True):
                limited = self._limited
                outputs: Sequence[Any]
                if limited is None:
                    outputs = self._program(self._constants, *given)
                elif limited.is_long:
                    outputs = limited.go_on(step, self._constants, given)
                else:
                    outputs = self._program(self._constants, *given, limited.iterations)
                is_good = self._is_good(outputs)
                if not (is_good or limited is None or np.asarray(outputs[-1])):
                    outputs = limited.go_on(step, self._constants, given)
                    is_good = self._is_good(outputs)
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error
        if not is_good:
            raise CheckFailedError
        return outputs

    def _is_good(self, outputs: Sequence[Any]) -> bool:
        return self._guard is None or bool(np.asarray(outputs[self._guard]))

    def _shown(self, arrays: Sequence[Any]) -> list[Any]:
        """Return JAX arrays as values of the device."""
        try:
            return [self._memory.as_value(array) for array in arrays]
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error

    def _results(self, outputs: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, ...]:
        memory, donatable = self._memory, self._layout.donatable
        return tuple(
            (
                memory.as_donatable_value(outputs[place])
                if place in donatable
                else memory.as_value(outputs[place])
            )
            if type(place) is int
            else self._other_result(place, outputs, variables)
            for place in self._layout.results
        )

    def _other_result(
        self, place: Any, outputs: Sequence[Any], variables: Sequence[Variable]
    ) -> Any:
        if isinstance(place, Flat):
            memory, donatable = self._memory, self._layout.donatable
            leaves = [
                memory.as_constant_value(leaf)
                if type(leaf) is not int
                else memory.as_donatable_value(outputs[leaf])
                if leaf in donatable
                else memory.as_value(outputs[leaf])
                for leaf in place.leaves
            ]
            return unflatten(place.form, leaves)
        if isinstance(place, TracedVariable):
            return variables[place.slot].value
        if isinstance(place, FirstRows):
            return self._memory.as_value(outputs[place.data])[: int(outputs[place.count])]
        return self._memory.as_constant_value(place)


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
