"""`compile_cluster`: from a cluster and a signature to one call of XLA."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import OpError
from graphmill.memory import ALIGNMENT, aligned_empty
from graphmill_plugins._constants import marking
from graphmill_plugins._jax import cpu_devices, jax_module
from graphmill_plugins.jit.compiler_options import compiler_options_for
from graphmill_plugins.jit.elements import GUARD, is_known
from graphmill_plugins.jit.errors import NeedsKnown, NotTraceable
from graphmill_plugins.jit.hoist import hoist
from graphmill_plugins.jit.kept import keep, kept_of
from graphmill_plugins.jit.long_loops import TURNS, Limit, LimitedProgram, TurnsUsedUpError
from graphmill_plugins.jit.program_cache import Program, ProgramCache, compile_program
from graphmill_plugins.jit.signature import as_array
from graphmill_plugins.jit.stages import compile_stages, cut
from graphmill_plugins.jit.trace import Tracer
from graphmill_plugins.jit.trace_cache import bound_traces
from graphmill_plugins.jit.traced_variable import TracedVariable

__all__ = [
    "CheckFailedError",
    "CompiledCluster",
    "NeedsKnown",
    "NotTraceable",
    "ProgramCache",
    "compile_cluster",
    "sources_of",
]

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.graph.node import Node
    from graphmill.runtime.executor import ExecutorArgs
    from graphmill.runtime.variables import Variable
    from graphmill_plugins.jit.routine import Routine, Routines
    from graphmill_plugins.jit.signature import Inputs

_TRACE_ERRORS: Final = (TypeError, ValueError, OverflowError, RecursionError, OpError)
# Of a program that is called: JAX refuses types and layouts of arguments, XLA has no memory, …
_RUN_ERRORS: Final = (
    *(TypeError, ValueError, MemoryError, TurnsUsedUpError),
    jax_module().errors.JaxRuntimeError,
)
_PLATFORM: Final = "cpu"
_COPIED_LATER: Final = 100 << 10  # bytes from which JAX copies in the background
_LARGE: Final = 4096  # bytes from which a constant is an argument of the program


class CheckFailedError(Exception):
    """The inputs are such that the interpreter raises: let it."""


class ProgramFailedError(CheckFailedError):
    """The program cannot be run, whatever the values are; nothing was done."""


@dataclass(slots=True)
class _Layout:
    """What the outputs of a program are; filled while it is traced.

    Attributes:
        results: for each output of the cluster its number among the traced ones, or what it is:
            a known value, or the variable that it is the value of.
        written: the variables that get new values, in their order after the traced results.
        is_guarded: whether the output after the new values tells if all checks held.
        num_traced: how many results are traced.
        num_loops: how many loops are not known to end after a few turns, but those within others;
            how many turns each made are the last outputs.
        is_limited: whether instead the last output tells if all such loops have turns left, as does
            that of the checks.
    """

    results: list[Any]
    written: list[TracedVariable]
    is_guarded: bool = False
    num_traced: int = 0
    num_loops: int = 0
    is_limited: bool = False


class CompiledCluster:
    """A cluster compiled for one signature.

    Threads: any number may call it. While variables are replaced their locks are held, in a fixed
    order, so that no update is lost.

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
        layout: _Layout,
        inputs: Inputs,
        known: frozenset[int],
    ) -> None:
        self._limited = program if isinstance(program, LimitedProgram) else None
        self._program: Any = program if self._limited is None else self._limited.call
        self._guard = layout.num_traced + len(layout.written) if layout.is_guarded else None
        self._constants = constants
        self._layout = layout
        self._inputs = inputs
        self._arrays = [index for index in inputs.arrays if index not in known]
        self._enable_x64 = jax_module().enable_x64
        self._put, self._device = jax_module().device_put, cpu_devices()[0]
        self._written = [key.slot for key in layout.written]
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
            return self._results(self._run(values, (), step), ())
        found = self._inputs.variables(values)
        if found is None:
            raise CheckFailedError
        variables = found[1]
        held = [variables[slot] for slot in self._written]
        locks = sorted({id(v): v.lock for v in held}.items())
        for _, lock in locks:
            lock.acquire()
        try:
            outputs = self._run(values, variables, step)
            self._commit(outputs, held)
        finally:
            for _, lock in locks:
                lock.release()
        return self._results(outputs, variables)

    def _run(
        self, values: Sequence[Any], variables: Sequence[Variable], step: ExecutorArgs
    ) -> Sequence[Any]:
        state = [self._state_of(variable) for variable in variables]
        try:
            with self._enable_x64(True):
                given = [*[aligned(values[index]) for index in self._arrays], *state]
                limited = self._limited
                outputs: Sequence[Any]
                if limited is None:
                    outputs = self._program(self._constants, *given)
                elif limited.is_long:
                    outputs = limited.go_on(step, self._constants, given)
                else:
                    outputs = self._program(self._constants, *given, limited.turns)
                is_good = self._is_good(outputs)
                if not (is_good or limited is None or np.asarray(outputs[-1])):
                    outputs = limited.go_on(step, self._constants, given)
                    is_good = self._is_good(outputs)
        except _RUN_ERRORS as error:
            raise ProgramFailedError(_first_line(error)) from error
        if not is_good:
            raise CheckFailedError
        return outputs

    def _is_good(self, outputs: Sequence[Any]) -> bool:
        return self._guard is None or bool(np.asarray(outputs[self._guard]))

    def _state_of(self, variable: Variable) -> Any:
        """Return the value of a variable as JAX has it: put there once, and then shared.

        The variable shows JAX's memory from then on, so that there are not two copies; if another
        thread is just changing it, there are until the next call.
        """
        value = variable.value
        array = kept_of(variable, value)
        if array is not None:
            return array
        with self._enable_x64(True):
            array = self._put(value, self._device)
        if variable.lock.acquire(blocking=False):  # those that are written are locked already
            try:
                if variable.value is value:
                    variable.value = view = np.asarray(array)
                    keep(variable, view, array)
            finally:
                variable.lock.release()
        return array

    def _commit(self, outputs: Sequence[Any], held: Sequence[Variable]) -> None:
        first = self._layout.num_traced
        arrays = outputs[first : first + len(held)]
        try:
            views = [np.asarray(array) for array in arrays]  # all of them are there, or none is set
        except _RUN_ERRORS as error:
            raise ProgramFailedError(_first_line(error)) from error
        for variable, view, array in zip(held, views, arrays, strict=True):
            variable.value = view
            keep(variable, view, array)

    def _results(self, outputs: Sequence[Any], variables: Sequence[Variable]) -> tuple[Any, ...]:
        return tuple(
            np.asarray(outputs[place])
            if type(place) is int
            else (variables[place.slot].value if isinstance(place, TracedVariable) else place)
            for place in self._layout.results
        )


def compile_cluster(
    routines: Routines,
    inputs: Inputs,
    values: Sequence[Any],
    cache: ProgramCache | None = None,
) -> CompiledCluster:
    """Compile a cluster for the signature of `values`, or take it from the persistent cache.

    Raises:
        NotTraceable: it cannot be; says which node and why.
    """
    began = time.perf_counter()
    known = inputs.known
    found = inputs.variables(values)
    if found is None:
        raise NotTraceable("a variable has no value yet")
    slots, variables = found
    build = _Build(routines, inputs, values, known, slots)
    jax = jax_module()
    with jax.enable_x64(True), jax.default_device(cpu_devices()[0]):
        arrays = [as_array(values[index]) for index in inputs.arrays if index not in known]
        state = [as_array(variable.value) for variable in variables]
        constants = [node.attrs["value"].numpy() for node in build.large]
        try:
            program, prepared, moved = _compiled(build, constants, arrays, state, cache)
        except (NotImplementedError, jax.errors.JaxRuntimeError) as error:
            raise NotTraceable(f"XLA: {_first_line(error)}") from error
    made = CompiledCluster(program.call, prepared, build.layout, inputs, known)
    made.key = inputs.key_of(values, known, slots, [value.shape for value in state])
    made.num_hoisted = moved
    made.is_loaded, made.cache = program.is_loaded, program.note
    bound_traces()
    made.seconds = time.perf_counter() - began
    return made


def _compiled(
    build: _Build,
    constants: list[Any],
    arrays: list[Any],
    state: list[Any],
    cache: ProgramCache | None,
) -> tuple[Program, tuple[Any, ...], int]:
    """Return the program, the constants that it takes, and how many operations moved to them."""
    jax = jax_module()
    shape = jax.ShapeDtypeStruct
    turns = shape((), np.int32)
    given = [shape(value.shape, value.dtype) for value in (*arrays, *state)]
    flat = [*(shape(c.shape, c.dtype) for c in constants), *given, turns]
    closed = _traced(build.trace, flat)
    staged, num_loops = None, build.layout.num_loops
    if num_loops and not build.has_inner_loop:
        staged = hoist(closed, range(len(constants)))
    if num_loops or build.has_inner_loop:  # only now it is known
        closed = _traced(partial(build.trace, is_limited=True), flat)
    parts = hoist(closed, range(len(constants)))
    prepared: tuple[Any, ...] = ()
    if constants or parts.moved:
        prepare = jax.jit(parts.prepare, keep_unused=True).lower(*constants)
        prepared = tuple(compile_program(prepare, {}, cache).call(*constants))
    options = compiler_options_for(closed, _PLATFORM)
    shapes = tuple(shape(value.shape, value.dtype) for value in prepared)
    if build.layout.is_limited:
        given.append(turns)

    def cluster(fixed: tuple[Any, ...], *moving: Any) -> Any:
        return parts.program(*fixed, *moving, *([] if is_limited else [np.int32(0)]))

    is_limited = build.layout.is_limited
    lowered = jax.jit(cluster, keep_unused=True).lower(shapes, *given)
    program = compile_program(lowered, options, cache)
    if is_limited:
        in_stages = None
        if staged is not None and _takes(staged.prepare, constants, shapes):
            whole = jax.make_jaxpr(staged.program)(*shapes, *given)
            in_stages = compile_stages(cut(whole, num_loops), options, cache)
        program = replace(program, call=LimitedProgram(program.call, in_stages))
    return program, prepared, parts.moved


def aligned(value: Any) -> Any:
    """Return an array that JAX takes as it is, if it is a large one: a copy where need be.

    JAX itself would copy it in the background, and then compute in another thread, too, with
    memory of that thread: large blocks of it are given back to the system after each step.
    """
    if value.nbytes < _COPIED_LATER:
        return value
    if value.flags.c_contiguous and not value.__array_interface__["data"][0] % ALIGNMENT:
        return value
    copy = aligned_empty(value.shape, value.dtype)
    copy[...] = value
    return copy


def _takes(prepare: Callable[..., Any], constants: Sequence[Any], shapes: Sequence[Any]) -> bool:
    """Return whether a second form of a program takes what was prepared for the first."""
    found = jax_module().eval_shape(prepare, *constants)
    return [(one.shape, one.dtype) for one in found] == [(one.shape, one.dtype) for one in shapes]


def _traced(function: Callable[..., Any], flat: Sequence[Any]) -> Any:
    """Return a function as JAX traced it; its last argument is how many turns loops make."""
    try:
        return jax_module().make_jaxpr(function)(*flat)
    except NotTraceable:
        raise
    except _TRACE_ERRORS as error:  # of JAX, and of functions that are not there
        raise NotTraceable(_first_line(error)) from error


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


class _Build:
    """Traces a cluster, and notes what its outputs are."""

    def __init__(
        self,
        routines: Routines,
        inputs: Inputs,
        values: Sequence[Any],
        known: frozenset[int],
        slots: Sequence[int],
    ) -> None:
        self._routines = routines
        self._inputs = inputs
        self._values = values
        self._known = known
        self._variables = inputs.traced_variables(values, slots)
        self.layout = _Layout([], [])
        self.has_inner_loop = False
        self.large: list[Node] = _large_constants(routines)

    def trace(self, *flat: Any, is_limited: bool = False) -> list[Any]:
        """Return the traced results, new values of variables and the outcome of the checks.

        Args:
            flat: large constants, arrays, values of variables, and how many turns a loop makes.
            is_limited: whether that is how many all loops make together.
        """
        *flat, turns = flat  # type: ignore[assignment]
        constants = dict(zip(self.large, flat, strict=False))
        moving = iter(flat[len(self.large) :])
        main, inputs = self._routines.main, self._inputs
        args: list[Any] = [None] * len(main.args)
        for index in inputs.arrays:
            is_known_one = index in self._known
            args[index] = self._values[index] if is_known_one else next(moving)
        state: dict[Any, Any] = {GUARD: np.bool_(True)}
        handles: dict[Node, Any] = {}
        for index, variable in zip(inputs.handles, self._variables, strict=True):
            if index < len(args):
                args[index] = variable
            else:
                handles[inputs.nodes[index - len(args)]] = variable
        slots = {variable.slot: variable for variable in self._variables}
        first = {slot: next(moving) for slot in range(len(slots))}
        for variable in self._variables:
            state[variable] = first[variable.slot]
        if is_limited:
            state[TURNS] = turns
        limit = Limit(turns)
        with marking(_PLATFORM) as marks:
            tracer = Tracer(self._routines, constants, handles, marks, limit)
            results, after = tracer.run(main, args, state)
        self.has_inner_loop = tracer.has_inner_loop
        self.layout.num_loops, self.layout.is_limited = len(limit.counts), is_limited
        more = limit.counts
        if is_limited:
            has_turns = after[TURNS] > 0
            more = [] if is_known(after[GUARD]) else [has_turns]
            after[GUARD] = after[GUARD] & has_turns
        elif more:  # two forms of a program have the same outputs
            after[GUARD] = jax_module().numpy.asarray(after[GUARD])
        return [*self._outputs(results, after, first), *more]

    def _outputs(self, results: list[Any], state: Any, first: dict[int, Any]) -> list[Any]:
        outputs: list[Any] = []
        places: list[Any] = []
        for value in results:
            if isinstance(value, TracedVariable) or is_known(value):
                places.append(value)
            else:
                places.append(len(outputs))
                outputs.append(value)
        layout = self.layout
        layout.results, layout.num_traced, layout.written = places, len(outputs), []
        for variable in self._variables:
            value = state[variable]
            if value is not first[variable.slot] and variable not in layout.written:
                layout.written.append(variable)
                outputs.append(value)
        guard = state[GUARD]
        layout.is_guarded = not is_known(guard)
        if layout.is_guarded:
            outputs.append(guard)
        elif not guard:
            raise NotTraceable("the interpreter refuses its values")
        return outputs


def _large_constants(routines: Routines) -> list[Node]:
    return [
        node
        for node in routines.main.nodes
        if node.op == "Const" and node.attrs["value"].numpy().nbytes >= _LARGE
    ]


def sources_of(routine: Routine, needs: NeedsKnown, inputs: Inputs) -> frozenset[int]:
    """Return the arguments that something that must be known is made of: small integers.

    What is made of a shape needs no value: shapes are known.
    """
    node, positions = needs.needed
    places = {arg: index for index, arg in enumerate(routine.args) if arg is not None}
    found = set()
    pending = [node.in_edges[position].src for position in positions]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node in places:
            index = places[node]
            if index in inputs.arrays and routine.arg_types[index].as_numpy_dtype.kind in "iub":
                found.add(index)
        elif node.op not in ("Shape", "ShapeN", "Size", "Rank"):
            fresh = [edge.src for edge in node.in_edges if edge.src not in seen]
            seen.update(fresh)
            pending.extend(fresh)
    return frozenset(found)
