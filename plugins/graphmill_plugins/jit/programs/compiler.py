"""`compile_cluster`: compile a cluster for a signature into one XLA call."""

from __future__ import annotations

import secrets
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jax.extend import core

from graphmill.errors import InternalError, OpError, ResourceExhaustedError
from graphmill.spi import Ref
from graphmill.spi.executors import is_validation_on
from graphmill.spi.graphs import is_constant
from graphmill_plugins._constants import marking
from graphmill_plugins._jax import jax_module, own_options
from graphmill_plugins.jit.ir.canonical_form import canonical_form, loop_bodies
from graphmill_plugins.jit.ir.errors import KernelFault, NeedsStatic, NotTraceable
from graphmill_plugins.jit.ir.pytrees import Flat, flatten, is_array, unflatten
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.programs.compiled_cluster import (
    CheckFailedError,
    CompiledCluster,
    Layout,
    first_line,
)
from graphmill_plugins.jit.programs.compiler_options import compiler_options_for
from graphmill_plugins.jit.programs.donation import MIN_BYTES
from graphmill_plugins.jit.programs.guard_program import guard_program_for
from graphmill_plugins.jit.programs.hoist import bytes_of, hoist
from graphmill_plugins.jit.programs.lapack_threads import without_blas_threads
from graphmill_plugins.jit.programs.loop_split import compile_stages, split_at_loops
from graphmill_plugins.jit.programs.measured_program import MeasuredProgram
from graphmill_plugins.jit.programs.memory import HostMemory, memory_of
from graphmill_plugins.jit.programs.preemptible_loops import CountedLoops, LimitedProgram
from graphmill_plugins.jit.programs.preparation import preparation
from graphmill_plugins.jit.programs.program_cache import ProgramCache, compile_program
from graphmill_plugins.jit.programs.recomputation import limit_recomputation
from graphmill_plugins.jit.programs.shared_programs import SHARED, SharedProgram
from graphmill_plugins.jit.programs.trace_cache import bound_traces
from graphmill_plugins.jit.tracing.elements import FirstRows
from graphmill_plugins.jit.tracing.iteration_limit import (
    ITERATIONS_LEFT,
    Limit,
    counts_of,
    start_counts,
)
from graphmill_plugins.jit.tracing.pytrees import register_pytrees
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static
from graphmill_plugins.jit.tracing.trace import Tracer

__all__ = [
    "CheckFailedError",
    "CompiledCluster",
    "KernelFault",
    "NeedsStatic",
    "NotTraceable",
    "ProgramCache",
    "compile_cluster",
    "memory_of",
    "sources_of",
]

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, ScheduledBody
    from graphmill_plugins.jit.ir.signature import Inputs

_TRACE_ERRORS: Final = (TypeError, ValueError, OverflowError, RecursionError, OpError)
_NUMPY_KINDS: Final = "biufc"  # kinds of the dtypes that NumPy itself defines
_MIN_ARGUMENT_BYTES: Final = 4096  # of a constant that is an argument of the program
_MIN_FLOAT_ARGUMENT_BYTES: Final = 64  # of one of floats, which determines no shapes
_MEASURED: Final = "not cached: its nodes are measured"
_MIN_LARGE_CLUSTER_NODES: Final = 200  # from here on, smaller constants are arguments, too


def compile_cluster(
    bodies: ScheduledBodies,
    inputs: Inputs,
    values: Sequence[Any],
    cache: ProgramCache | None = None,
    memory: HostMemory | None = None,
    *,
    is_loop: bool = False,
) -> CompiledCluster:
    """Compile a cluster for the signature of `values`, or load it from the persistent cache.

    Args:
        bodies: the cluster.
        inputs: describes its inputs.
        values: one for each input.
        cache: the persistent cache of the same device; None for none.
        memory: the device's memory; by default the host's.
        is_loop: whether the cluster is one loop. Its last argument is then the maximum number of
            iterations of a call, and the number that a call has run is its last result.

    Raises:
        NotTraceable: it cannot be compiled; the message says which node is the cause, and why.
    """
    started = time.perf_counter()
    slots_and_variables = inputs.variables(values)
    if slots_and_variables is None:
        raise NotTraceable("a handle is not that of a variable")
    slots, variables = slots_and_variables
    memory = memory or memory_of(None)
    large = _large_constants(bodies)
    cluster_key = _cluster_key(bodies, inputs, large, memory, is_loop=is_loop)
    inputs.static |= SHARED.static_of(cluster_key)
    static = inputs.static
    build = _Build(bodies, inputs, values, static, slots, memory, large, is_loop=is_loop)
    jax = jax_module()
    options = own_options()
    with options(), jax.default_device(memory.jax_device):
        arrays = [values[index] for index in inputs.arrays if index not in static]
        state = [variable.value for variable in variables]
        if any(value is None for value in state):
            raise NotTraceable("a variable has no value yet")
        leaves = inputs.leaves(values)
        constants = [node.attrs["value"].numpy() for node in large]
        key = inputs.key_of(values, static, slots, [value.shape for value in state])
        kinds = [isinstance(values[index], Ref) for index in inputs.handles]
        signature = key, tuple(kinds), tuple([str(value.dtype) for value in state])
        shared = SHARED.find(cluster_key, signature)
        is_first = shared is None
        try:
            if shared is None:
                # Programs in a folder may have the names of other nodes.
                disk_cache = None if bodies.measured_as else cache
                shared = _compiled(build, constants, arrays, state, leaves, disk_cache)
                SHARED.add(cluster_key, signature, shared)
            prepared = shared.prepared(constants)
        except (NotImplementedError, jax.errors.JaxRuntimeError) as error:
            raise NotTraceable(f"XLA: {first_line(error)}") from error
        except ResourceExhaustedError as error:  # single nodes may need less than the program
            raise NotTraceable(error.message) from error
    loop_names = {}
    if shared.loop_bodies and not is_first:
        loop_names = dict(zip(shared.loop_bodies, loop_bodies(bodies), strict=True))
    kind = MeasuredProgram if bodies.measured_as else CompiledCluster
    cluster = kind(shared, prepared, inputs, memory, loop_names)
    cluster.key = key
    if is_first:
        cluster.is_loaded, cluster.cache = shared.program.is_loaded, shared.program.note
    if isinstance(cluster, MeasuredProgram):
        cluster.measured_as, cluster.text = bodies.measured_as, shared.text
        cluster.cache = "" if cache is None else _MEASURED
    cluster.is_shared = not is_first
    bound_traces()
    cluster.seconds = time.perf_counter() - started
    return cluster


def _compiled(
    build: _Build,
    constants: list[Any],
    arrays: list[Any],
    state: list[Any],
    leaves: list[Any],
    cache: ProgramCache | None,
) -> SharedProgram:
    """Trace and compile a cluster.

    What depends on the constants alone becomes a program that runs once (`hoist`). A cluster with
    loops whose trip counts are unknown is traced again, with a budget of iterations, so that a call
    can be interrupted (`LimitedProgram`).
    """
    jax = jax_module()
    shape = jax.ShapeDtypeStruct
    iterations = shape((), np.int32)
    dynamic = [shape(value.shape, value.dtype) for value in (*arrays, *state, *leaves)]
    flat = [*(shape(c.shape, c.dtype) for c in constants), *dynamic, iterations]
    closed = _traced(build.trace, flat)
    staged, num_loops = None, build.layout.num_loops
    if num_loops and not build.has_inner_loop:
        staged = hoist(closed, range(len(constants)))
    if num_loops or build.has_inner_loop:  # found by the first trace
        closed = _traced(partial(build.trace, is_limited=True), flat)
    closed = limit_recomputation(closed, build.memory.platform)
    if cache is not None:
        cache = cache.for_kernels(build.suppliers)
    parts = hoist(closed, range(len(constants)))
    prepare, shapes = None, ()
    if constants or parts.moved:
        prepare = preparation(parts, constants, build.memory, cache)
        shapes = tuple(shape(one.shape, one.dtype) for one in parts.early.out_avals)
    is_kept = cache is not None or bool(jax.config.jax_compilation_cache_dir)
    options = compiler_options_for(closed, build.memory.platform, is_kept=is_kept)
    if build.layout.is_limited:
        dynamic.append(iterations)

    layout = build.layout
    is_limited = layout.is_limited

    def cluster(fixed: tuple[Any, ...], *arguments: Any) -> Any:
        return parts.program(*fixed, *arguments, *([] if is_limited else [np.int32(0)]))

    if build.is_measured:  # so that it is found in a profile, and never in JAX's own cache
        cluster.__name__ = f"cluster_{secrets.token_hex(8)}"
    _donate(layout, parts.closed, state, cache)
    _mark_donatable(layout, parts.closed)
    donated = [1 + len(arrays) + layout.written[index].slot for index in layout.donated]
    lowered = jax.jit(cluster, keep_unused=True, donate_argnums=donated).lower(shapes, *dynamic)
    program = compile_program(lowered, options, cache)
    build.memory.check_program(program.call)
    text = program.call.as_text() if build.is_measured else ""
    call = without_blas_threads(program.call, closed, build.memory.platform)
    program = replace(program, call=call)
    if is_limited:
        stages = None
        if staged is not None and _prepares(staged.prepare, constants, shapes):
            whole = jax.make_jaxpr(staged.program)(*shapes, *dynamic)
            stages = compile_stages(split_at_loops(whole, num_loops), options, cache)
        limited = LimitedProgram(program.call, stages, build.memory.jax_device)
        program = replace(program, call=limited)
    loops = build.loop_bodies()
    return SharedProgram(program, prepare, layout, parts.moved, build.static, loops, text)


def _cluster_key(
    bodies: ScheduledBodies,
    inputs: Inputs,
    large: Sequence[Node],
    memory: HostMemory,
    *,
    is_loop: bool,
) -> Hashable:
    """Return a key that equal clusters of one session and device share; None if there is none."""
    if bodies.measured_as:  # its operations have the names of its own nodes
        return None
    form = canonical_form(bodies, large, inputs.nodes)
    if form is None:
        return None
    return form, is_loop, bodies.host, bodies.device, bodies.policy, memory.jax_device


def _donate(layout: Layout, closed: Any, state: Sequence[Any], cache: ProgramCache | None) -> None:
    """Choose the written variables whose old values are donated."""
    large = tuple(
        index
        for index, variable in enumerate(layout.written)
        if state[variable.slot].nbytes >= MIN_BYTES
        and closed.out_avals[index].shape == state[variable.slot].shape
        and closed.out_avals[index].dtype == state[variable.slot].dtype
    )
    if not large or layout.is_limited:  # a program with an iteration budget may have to run again
        return
    if layout.is_guarded:
        layout.check = guard_program_for(closed, layout.guard, cache)
        if layout.check is None:
            return
    layout.donated = large


def _mark_donatable(layout: Layout, closed: Any) -> None:
    """Choose the large results that only the caller holds, so that they can be donated later."""
    if layout.is_limited:  # its stages may return their arguments
        return
    jaxpr = closed.jaxpr
    inputs = {*jaxpr.invars, *jaxpr.constvars}
    counts = Counter(variable for variable in jaxpr.outvars if isinstance(variable, core.Var))
    first = len(layout.written)
    layout.donatable = frozenset(
        index
        for index in range(first, first + layout.num_traced)
        if isinstance(jaxpr.outvars[index], core.Var)
        and counts[jaxpr.outvars[index]] == 1
        and jaxpr.outvars[index] not in inputs
        and jaxpr.outvars[index].aval.dtype.kind in _NUMPY_KINDS
        and bytes_of(jaxpr.outvars[index]) >= MIN_BYTES
    )


def _prepares(prepare: Callable[..., Any], constants: Sequence[Any], shapes: Sequence[Any]) -> bool:
    """Return whether `prepare` converts these constants to arrays of these shapes and dtypes."""
    prepared = jax_module().eval_shape(prepare, *constants)
    return [(one.shape, one.dtype) for one in prepared] == [
        (one.shape, one.dtype) for one in shapes
    ]


def _traced(function: Callable[..., Any], flat: Sequence[Any]) -> Any:
    """Return a function traced by JAX; its last argument is the iteration budget."""
    try:
        return jax_module().make_jaxpr(function)(*flat)
    except NotTraceable:
        raise
    except _TRACE_ERRORS as error:  # raised by JAX, or because a function is missing
        if isinstance(error, InternalError) and is_validation_on():
            raise
        raise NotTraceable(first_line(error)) from error


class _Build:
    """Traces a cluster and records its outputs."""

    def __init__(
        self,
        bodies: ScheduledBodies,
        inputs: Inputs,
        values: Sequence[Any],
        static: frozenset[int],
        slots: Sequence[int],
        memory: HostMemory,
        large: list[Node],
        *,
        is_loop: bool = False,
    ) -> None:
        self.memory = memory
        self.static = static
        self._is_loop = is_loop
        self._bodies = bodies
        self.is_measured = bool(bodies.measured_as)
        self._inputs = inputs
        self._values = values
        self._variables = inputs.traced_variables(values, slots)
        self.layout = Layout([], [])
        self.has_inner_loop = False
        self.suppliers: frozenset[str] = frozenset()
        self.large = large

    def loop_bodies(self) -> tuple[str, ...]:
        """Return the bodies of all loops, if any is counted; call it after `trace`."""
        return loop_bodies(self._bodies) if self.layout.loops != CountedLoops() else ()

    def trace(self, *flat: Any, is_limited: bool = False) -> list[Any]:
        """Return the traced results, the new variable values and the guard.

        Args:
            flat: large constants, arrays, values of variables, arrays of pytrees, and the
                iteration budget.
            is_limited: whether all loops share that budget; otherwise each loop has its own.
        """
        *flat, iterations = flat  # type: ignore[assignment]
        constants = dict(zip(self.large, flat, strict=False))
        dynamic = iter(flat[len(self.large) :])
        main, inputs = self._bodies.main, self._inputs
        args: list[Any] = [None] * len(main.args)
        for index in inputs.arrays:
            is_constant = index in self.static
            args[index] = np.asarray(self._values[index]) if is_constant else next(dynamic)
        state: dict[Any, Any] = {GUARD: np.bool_(True)}
        handles: dict[Node, Any] = {}
        for index, variable in zip(inputs.handles, self._variables, strict=True):
            if index < len(args):
                args[index] = variable
            else:
                handles[inputs.nodes[index - len(args)]] = variable
        slots = {variable.slot: variable for variable in self._variables}
        first = {slot: next(dynamic) for slot in range(len(slots))}
        for variable in self._variables:
            state[variable] = first[variable.slot]
        for index in inputs.pytrees:
            form, leaves = flatten(self._values[index])
            args[index] = unflatten(form, [next(dynamic) for _ in leaves])
        if is_limited:
            state[ITERATIONS_LEFT] = iterations
            start_counts(self.layout.loops.each, state)
        limit = Limit(args[-1] if self._is_loop else iterations)
        register_pytrees()
        with marking(self.memory.platform) as marks:
            tracer = Tracer(self._bodies, constants, handles, marks, limit)
            results, after = tracer.run(main, args, state)
        self.suppliers = tracer.suppliers
        if self._is_loop:
            self.layout.loops = _counted_loops(tracer, 0)
            count = _iterations_of(limit, has_inner_loop=tracer.has_inner_loop)
            return self._outputs([*results, count], after, first)
        self.has_inner_loop = tracer.has_inner_loop
        if not is_limited:
            self.layout.loops = _counted_loops(tracer, len(limit.counts))
        self.layout.num_loops, self.layout.is_limited = len(limit.counts), is_limited
        more = limit.counts
        if is_limited:
            # An outer loop still counts the iteration in which an inner one uses up the budget.
            left, guard = jax_module().numpy.maximum(after[ITERATIONS_LEFT], 0), after[GUARD]
            is_unguarded = is_static(guard) and bool(guard)
            counted = self.layout.loops.each
            more = [counts_of(counted, after)] if counted else []
            more += [left] if counted or not is_unguarded else []
            after[GUARD] = left if is_unguarded else guard & (left > 0)
        elif more:  # both variants of a program must have the same outputs
            after[GUARD] = jax_module().numpy.asarray(after[GUARD])
        return [*self._outputs(results, after, first), *more]

    def _outputs(self, results: list[Any], state: Any, first: dict[int, Any]) -> list[Any]:
        layout = self.layout
        layout.written = sorted(
            {
                variable.slot: variable
                for variable in self._variables
                if state[variable] is not first[variable.slot]
            }.values(),
            key=lambda variable: variable.slot,
        )
        outputs: list[Any] = [state[variable] for variable in layout.written]
        layout.results = []
        for value in results:
            if isinstance(value, TracedVariable) or is_static(value):
                layout.results.append(value)
            elif isinstance(value, FirstRows):
                layout.results.append(FirstRows(len(outputs), len(outputs) + 1))
                outputs += [value.data, value.count]
            elif is_array(value):
                layout.results.append(len(outputs))
                outputs.append(value)
            else:
                layout.results.append(_output_indices(value, outputs))
        layout.num_traced = len(outputs) - len(layout.written)
        guard = state[GUARD]
        layout.is_guarded = not is_static(guard)
        if layout.is_guarded:
            outputs.append(guard)
        elif not guard:
            raise NotTraceable("its static values fail a check, whose error the interpreter raises")
        return outputs


def _counted_loops(tracer: Tracer, num_loops: int) -> CountedLoops:
    """Return the loops of a program whose iterations are noted; `num_loops` have their own budget.

    Several loops that share a budget need counters. A single one does not.
    """
    outermost: tuple[str, ...] = ()
    if not tracer.has_inner_loop and len(tracer.preemptible_loops) == num_loops:
        outermost = tuple(tracer.preemptible_loops)
    each = tuple(tracer.limited_loops) if tracer.has_inner_loop or num_loops > 1 else ()
    fixed = tuple((body, count) for body, count in tracer.trips.items() if body not in each)
    return CountedLoops(outermost, each, fixed)


def _iterations_of(limit: Limit, *, has_inner_loop: bool) -> Any:
    """Return the traced number of iterations of a cluster that is one loop.

    Raises:
        NotTraceable: the loop cannot be continued at any iteration.
    """
    if has_inner_loop:
        raise NotTraceable(
            "it contains an inner loop with an unknown trip count; that loop is compiled instead"
        )
    if limit.condition_changes_state:
        raise NotTraceable("its condition has effects, which would be repeated")
    if len(limit.counts) != 1:
        raise NotTraceable("its trip count is known at compile time")
    return limit.counts[0]


def _output_indices(value: Any, outputs: list[Any]) -> Flat:
    """Append the arrays of a pytree to the outputs; return the pytree of their indices.

    Raises:
        NotTraceable: programs cannot return a value of this type.
    """
    form, leaves = flatten(value)
    indices: list[Any] = []
    for leaf in leaves:
        indices.append(leaf if is_static(leaf) else len(outputs))
        outputs += () if is_static(leaf) else (leaf,)
    return Flat(form, indices)


def _large_constants(bodies: ScheduledBodies) -> list[Node]:
    """Return the constants to pass as arguments, so that equal layers can share a program."""
    nodes = bodies.main.nodes
    constants = [(node, node.attrs["value"].numpy()) for node in nodes if is_constant(node)]
    takes_numbers = len(nodes) >= _MIN_LARGE_CLUSTER_NODES
    return [
        node
        for node, value in constants
        if _is_large(value) or (takes_numbers and _is_general_number(node, value))
    ]


def _is_general_number(node: Node, value: Any) -> bool:
    """Return whether the code that XLA generates does not depend on the value of a constant.

    It simplifies sums and products with 0, 1 and -1, and may simplify powers by the exponent.
    """
    if value.ndim or value.dtype.kind != "f" or abs(value) in (0, 1):
        return False
    return all(edge.dst.op_def.is_commutative for edge in node.out_edges)


def _is_large(value: Any) -> bool:
    is_float_array = (
        value.ndim > 0 and value.dtype.kind in "fc" and value.nbytes >= _MIN_FLOAT_ARGUMENT_BYTES
    )
    return is_float_array or bool(value.nbytes >= _MIN_ARGUMENT_BYTES)


def sources_of(scheduled: ScheduledBody, needs: NeedsStatic, inputs: Inputs) -> frozenset[int]:
    """Return the integer and Boolean arguments from which a required static value is computed.

    The search stops at nodes that read only shapes, which are static.
    """
    node, positions = needs.needed
    indices = {arg: index for index, arg in enumerate(scheduled.args) if arg is not None}
    sources = set()
    pending = [node.in_edges[position].src for position in positions]
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node in indices:
            index = indices[node]
            if index in inputs.arrays and scheduled.arg_types[index].as_numpy_dtype.kind in "iub":
                sources.add(index)
        elif not node.op_def.traits.shape_only:
            fresh = [edge.src for edge in node.in_edges if edge.src not in seen]
            seen.update(fresh)
            pending.extend(fresh)
    return frozenset(sources)
