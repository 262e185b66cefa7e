"""`CompiledCluster`: a cluster as one XLA call, with variable values as inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.process import DeferredInterrupt
from graphmill_plugins._jax import jax_module, own_options
from graphmill_plugins.jit.ir.pytrees import Flat, unflatten
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.programs.donation import DonatedValues
from graphmill_plugins.jit.programs.memory import UninitializedVariableError
from graphmill_plugins.jit.programs.preemptible_loops import (
    CountedLoops,
    IterationBudgetError,
    LimitedProgram,
)
from graphmill_plugins.jit.tracing.elements import FirstRows

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from threading import Lock

    from graphmill.spi import ExecutorArgs, Variable
    from graphmill_plugins.jit.ir.signature import Inputs
    from graphmill_plugins.jit.programs.guard_program import GuardProgram
    from graphmill_plugins.jit.programs.memory import HostMemory
    from graphmill_plugins.jit.programs.shared_programs import SharedProgram

# Errors of a program's call: JAX rejects types or layouts of arguments, XLA is out of memory, …
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

    The new values of variables come first, so that JAX can match each with a donated old value.

    Attributes:
        results: for each output of the cluster one of: its index among the program's outputs, a
            static value, the variable with its value, the first rows of an output (another output
            is their count), or a pytree of indices and static values.
        written: the variables that get new values, in the order of their slots.
        donated: indices into `written` of the variables whose old values are donated.
        check: evaluates the guard before the program runs; set if values are donated and there is
            a guard.
        is_guarded: whether the output after new values and results is the guard.
        num_traced: the number of traced results.
        donatable: indices of large computed results whose memory the caller may donate later.
        num_loops: the number of outermost loops with an unknown trip count; their iteration counts
            are the last outputs.
        is_limited: whether the last output is instead the number of iterations that all such loops
            have left.
        loops: the loops whose iterations are noted in traced steps.
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
    loops: CountedLoops = field(default_factory=CountedLoops)

    @property
    def guard(self) -> int:
        """The index of the guard among the outputs, if `is_guarded`."""
        return len(self.written) + self.num_traced


@dataclass(slots=True, frozen=True)
class _CallVariables:
    """The variables that a call reads and writes; nearly every call has the same.

    Attributes:
        variables: those of the inputs.
        written: those that get new values.
        locks: the locks to acquire, in the global order.
    """

    variables: list[Variable]
    written: list[Variable]
    locks: list[Lock]


class CompiledCluster:
    """A cluster compiled for one signature.

    Threads: any number may call it. A call holds the locks of the variables that it replaces, or
    of all variables if some are donated, so that no update is lost. It acquires them in a fixed
    order.

    Attributes:
        seconds: how long tracing and compiling took.
        num_hoisted: the number of operations that depend on constants alone and run only once.
        is_loaded: whether the program was in the persistent cache.
        is_shared: whether it had been compiled for an equal cluster.
        cache: describes for users what that cache did.
        key: the signature of the inputs that it was compiled for; see `Inputs.key`.
    """

    def __init__(
        self,
        shared: SharedProgram,
        constants: tuple[Any, ...],
        inputs: Inputs,
        memory: HostMemory,
        loop_names: Mapping[str, str],
    ) -> None:
        self._shared = shared
        program, layout, static = shared.program.call, shared.layout, shared.static
        self._limited = program if isinstance(program, LimitedProgram) else None
        self._program: Any = program if self._limited is None else self._limited.call
        is_guard_read = layout.is_guarded and layout.check is None
        self._guard = layout.guard if is_guard_read else None
        self._constants = constants
        self._layout = layout
        self._inputs = inputs
        self._arrays = [index for index in inputs.arrays if index not in static]
        self._memory = memory
        self._options = own_options()
        self._loops = layout.loops.renamed(loop_names) if loop_names else layout.loops
        self._written = [key.slot for key in layout.written]
        self._donated = layout.donated
        self._undonated = [one for one in range(len(self._written)) if one not in self._donated]
        self._donors = [len(self._arrays) + self._written[index] for index in layout.donated]
        self._last: _CallVariables | None = None
        self.seconds = 0.0
        self.num_hoisted = shared.num_hoisted
        self.is_shared = False
        self.is_loaded = False
        self.cache = ""
        self.key: Hashable = None

    def __call__(self, values: Sequence[Any], step: ExecutorArgs) -> tuple[Any, ...]:
        """Compute the outputs, and replace the values of variables.

        Args:
            values: one for each input.
            step: the step, whose cancellation ends loops with an unknown trip count.

        Raises:
            CancelledError, DeadlineExceededError: the step was cancelled.
            CheckFailedError: a check failed; the interpreter must run the nodes, and may raise.
            ProgramFailedError: the program cannot be run: memory is exhausted, or a variable has
                another shape now.

        No variable has changed if one of these is raised.
        """
        if not self._inputs.handles:
            return self._results(self._run(self._arguments(values, ()), step), ())
        read = self._inputs.variables(values)
        if read is None:
            raise CheckFailedError
        variables = read[1]
        last = self._last
        if last is None or last.variables is not variables:
            last = self._last = self._call_variables(variables)
        written = last.written
        locks: list[Lock] = []
        try:
            # In C, without bytecode in between: after an interrupt each acquired lock is listed.
            locks.extend(filter(_ACQUIRE, last.locks))
            update = self._update_in_place if self._donated else self._update
            outputs = update(values, variables, written, step)
        finally:
            for lock in locks:
                lock.release()
        return self._results(outputs, variables)

    def _call_variables(self, variables: list[Variable]) -> _CallVariables:
        written = [variables[slot] for slot in self._written]
        locked = {id(variable): variable for variable in (variables if self._donated else written)}
        return _CallVariables(variables, written, [locked[key].lock for key in sorted(locked)])

    def _update(
        self,
        values: Sequence[Any],
        variables: Sequence[Variable],
        written: Sequence[Variable],
        step: ExecutorArgs,
    ) -> Sequence[Any]:
        """Run the program, and set the new values of `written`."""
        outputs = self._run(self._arguments(values, variables, are_locked=False), step)
        self._replace(written, outputs[: len(written)])
        return outputs

    def _replace(self, variables: Sequence[Variable], arrays: Sequence[Any]) -> None:
        try:
            self._memory.replace_all(variables, arrays)
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error

    def _update_in_place(
        self,
        values: Sequence[Any],
        variables: Sequence[Variable],
        written: Sequence[Variable],
        step: ExecutorArgs,
    ) -> Sequence[Any]:
        """Run the program with some of the old values donated."""
        arguments = self._arguments(values, variables, are_locked=True)
        self._check_first(arguments)
        donated = self._donated
        with DeferredInterrupt():  # values that were overwritten in place must also be set
            donated_values = DonatedValues(
                self._memory, [written[index] for index in donated], arguments, self._donors
            )
            try:
                outputs = self._run(arguments, step)
                arrays = [outputs[index] for index in donated]
                donated_values.replace(self._as_values(arrays), arrays)
            finally:
                donated_values.end()
            others = self._undonated
            self._replace([written[index] for index in others], [outputs[one] for one in others])
        return outputs

    def _check_first(self, arguments: Sequence[Any]) -> None:
        check = self._layout.check
        if check is None:
            return
        try:
            with self._options():
                is_good = check.holds([*self._constants, *arguments])
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error
        if not is_good:
            raise CheckFailedError

    def _arguments(
        self, values: Sequence[Any], variables: Sequence[Variable], *, are_locked: bool = False
    ) -> list[Any]:
        """Return the non-constant arguments of the program."""
        memory = self._memory
        as_argument = memory.as_separate_argument if are_locked else memory.as_argument
        arguments = [as_argument(values[index]) for index in self._arrays]
        try:
            arguments += memory.arrays_of(variables, is_locked=are_locked)
        except UninitializedVariableError:  # another step has destroyed it
            raise CheckFailedError from None
        if self._inputs.pytrees:
            arguments += map(as_argument, self._inputs.leaves(values))
        return arguments

    def _run(self, arguments: Sequence[Any], step: ExecutorArgs) -> Sequence[Any]:
        try:
            with self._options():
                limited = self._limited
                outputs: Sequence[Any]
                if limited is None:
                    outputs = self._program(self._constants, *arguments)
                    is_good = self._is_good(outputs)
                else:
                    outputs, is_good = self._run_limited(limited, arguments, step)
            self._memory.note_started(outputs)
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error
        if not is_good:
            raise CheckFailedError
        if step.stats_collector is not None:
            self._loops.note_fixed(step.stats_collector)
        return outputs

    def _run_limited(
        self, limited: LimitedProgram, arguments: Sequence[Any], step: ExecutorArgs
    ) -> tuple[Sequence[Any], bool]:
        """Return the outputs of a program with an iteration budget, and whether its checks hold."""
        if not limited.is_long:
            budget = limited.iterations
            outputs = self._program(self._constants, *arguments, budget)
            is_good = self._is_good(outputs)
            if is_good or np.asarray(outputs[-1]):
                if is_good and step.stats_collector is not None:
                    self._loops.note(step.stats_collector, budget, outputs)
                return outputs, is_good
        outputs = limited.retry(step, self._constants, arguments, self._loops)
        return outputs, self._is_good(outputs)

    def _is_good(self, outputs: Sequence[Any]) -> bool:
        return self._guard is None or bool(np.asarray(outputs[self._guard]))

    def _as_values(self, arrays: Sequence[Any]) -> list[Any]:
        """Return JAX arrays as values of the device."""
        try:
            return [self._memory.as_value(array) for array in arrays]
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error

    def _results(self, outputs: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, ...]:
        memory, donatable = self._memory, self._layout.donatable
        try:
            return tuple(
                (
                    memory.as_donatable_value(outputs[source])
                    if source in donatable
                    else memory.as_value(outputs[source])
                )
                if type(source) is int
                else self._other_result(source, outputs, variables)
                for source in self._layout.results
            )
        except _RUN_ERRORS as error:
            raise ProgramFailedError(first_line(error)) from error

    def _other_result(
        self, source: Any, outputs: Sequence[Any], variables: Sequence[Variable]
    ) -> Any:
        if isinstance(source, Flat):
            memory, donatable = self._memory, self._layout.donatable
            leaves = [
                memory.as_constant_value(leaf)
                if type(leaf) is not int
                else memory.as_donatable_value(outputs[leaf])
                if leaf in donatable
                else memory.as_value(outputs[leaf])
                for leaf in source.leaves
            ]
            return unflatten(source.form, leaves)
        if isinstance(source, TracedVariable):
            return variables[source.slot].value
        if isinstance(source, FirstRows):
            return self._memory.as_value(outputs[source.data])[: int(outputs[source.count])]
        return self._memory.as_constant_value(source)


def first_line(error: Exception) -> str:
    """Return the type of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
