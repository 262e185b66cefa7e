"""`Tracer`: compute a function body with values that JAX traces.

The module `values` describes the values. A node whose inputs are all static is computed by its
NumPy kernel during tracing, so that shape arithmetic folds.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.spi import (
    CallKind,
    OpKernelContext,
    Ref,
    ResourceHandle,
    Source,
    Variable,
    refs_to_read,
)
from graphmill.spi.compilers import COPY_TO_DEVICE, COPY_TO_HOST
from graphmill.spi.graphs import calls_of
from graphmill.spi.kernels import UNIQUE_INDICES
from graphmill.spi.passes import effects_of
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.analysis.trip_count import pass_through, trip_count_of
from graphmill_plugins.jit.ir.errors import NeedsStatic, NotTraceable, ShapesChange
from graphmill_plugins.jit.ir.handles import HANDLE_TYPES, VARIANT, was_switch
from graphmill_plugins.jit.ir.node_scopes import scope_of
from graphmill_plugins.jit.ir.pytrees import flatten
from graphmill_plugins.jit.ir.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.conditionals import trace_cond
from graphmill_plugins.jit.tracing.declared_outputs import DeclaredOutputs
from graphmill_plugins.jit.tracing.elements import FirstRows
from graphmill_plugins.jit.tracing.iteration_limit import ITERATIONS_LEFT, count_run
from graphmill_plugins.jit.tracing.list_length import with_static_lengths
from graphmill_plugins.jit.tracing.list_size import Counts
from graphmill_plugins.jit.tracing.loops import trace_while
from graphmill_plugins.jit.tracing.node_trace import NodeTrace
from graphmill_plugins.jit.tracing.offsets import Offsets
from graphmill_plugins.jit.tracing.pytrees import leaves_of
from graphmill_plugins.jit.tracing.replay import Replays
from graphmill_plugins.jit.tracing.row_checks import require_rows_in_range, value_with_rows
from graphmill_plugins.jit.tracing.static_values import GUARD, is_static
from graphmill_plugins.jit.tracing.traced_kernels import (
    TracedKernels,
    attempted,
    called,
    called_with,
    missing_static,
    positions_of,
)
from graphmill_plugins.jit.tracing.traced_outputs import Origin, check_type, outputs_of
from graphmill_plugins.jit.tracing.traced_shapes import check_shapes
from graphmill_plugins.jit.tracing.unique_lowering import DistinctRows
from graphmill_plugins.jit.tracing.unroll import unrolled
from graphmill_plugins.jit.tracing.values import Absent, is_array_value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from graphmill.spi import FuncAttr, Graph, Node, OpKernel
    from graphmill.spi.graphs import CalledFunction, FunctionBody
    from graphmill_plugins._constants import Marks
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoice
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, ScheduledBody
    from graphmill_plugins.jit.tracing.iteration_limit import Limit
    from graphmill_plugins.jit.tracing.values import State

_COPIES: Final = (COPY_TO_DEVICE, COPY_TO_HOST)  # identities, as a program has one memory
_MAX_FOLDED_BYTES: Final = 1 << 20  # maximum size in bytes of a folded result
_MAX_UNCANCELLABLE_ITERATIONS: Final = 100_000  # loops with more iterations must be cancellable
_MAX_CALLS: Final = 1_000  # maximum number of function calls that one program contains
_MAX_RESERVED_CAPACITY: Final = 4_096  # maximum capacity of lists if the trip count is only a bound


class Tracer:
    """Traces the bodies of one cluster.

    Args:
        bodies: the cluster and its functions.
        constants: traced values that represent large constants, by node.
        handles: the traced variables, by the nodes that name them or whose kernels keep them.
        marks: the values that are the same in each call; values computed from them are added.
        limit: ends long loops early; None for programs that need not be cancelled.

    Threads: used by one thread; it binds kernels of its own.

    Attributes:
        has_inner_loop: whether a long loop is inside another loop or a conditional.
        trips: the static trip counts of loops, by body.
        limited_loops: the bodies of all loops that a limit may end, also of inner ones, in order.
        preemptible_loops: the bodies of the outermost loops that a limit may end, in order; empty
            strings for those in `trips`.
        offsets: static differences between traced integers.
        counts: the capacities of lists by their traced sizes.
        rows: the distinct rows that `Unique` nodes compute.
    """

    def __init__(
        self,
        bodies: ScheduledBodies,
        constants: Mapping[Node, Any],
        handles: Mapping[Node, TracedVariable],
        marks: Marks,
        limit: Limit | None = None,
    ) -> None:
        self.has_inner_loop = False
        self.trips: dict[str, int] = {}
        self.limited_loops: dict[str, None] = {}
        self.preemptible_loops: list[str] = []
        self._limit = limit
        self._depth = 0  # nesting depth of functions of loops and conditionals
        self._marks = marks
        marks.add(constants.values())
        self._bodies = bodies
        self._handles = handles
        self._constants = constants
        self._kernels = TracedKernels(bodies.choices, bodies.policy)
        self._declared = DeclaredOutputs(self._kernels)
        self._replays = Replays(marks)
        self.offsets = Offsets()
        self.counts = Counts()
        self.rows = DistinctRows(bodies.main.body.graph, bodies.choices)
        self._num_traced = 0
        self._num_calls = 0
        self._jnp = jax_module().numpy

    def run(
        self, scheduled: ScheduledBody, args: list[Any], state: State
    ) -> tuple[list[Any], State]:
        """Compute a body; the state is changed in place and returned.

        Raises:
            NotTraceable: a node cannot be traced.
        """
        trace = self._named if self._bodies.measured_as else self._node
        values: dict[Node, tuple[Any, ...]] = {}
        for node, arg in zip(scheduled.args, args, strict=True):
            if node is not None:
                values[node] = (arg,)
        for node in scheduled.nodes:
            inputs = [values[edge.src][edge.src_output] for edge in node.in_edges]
            try:
                values[node] = trace(node, inputs, state)
            except NotTraceable as error:
                raise error.at(node) from None
        results = [values[node][output] for node, output in scheduled.results]
        return [_read(value, state) for value in results], state

    def _named(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a node so that its operations have its name."""
        with jax_module().named_scope(scope_of(node.name)):
            return self._node(node, inputs, state)

    def _node(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        for position in refs_to_read(node):
            if isinstance(inputs[position], TracedVariable):
                inputs[position] = state[inputs[position]]
        traits = node.op_def.traits
        if traits.source is Source.CONSTANT:
            constant = self._constants.get(node)
            return (node.attrs["value"].numpy() if constant is None else constant,)
        if node in self._handles:
            handle = self._handles[node]
            is_variable = traits.source is Source.VARIABLE
            return (handle,) if is_variable else self.compute(node, inputs, state, handle)
        if traits.forwards and node.output_types[0].base_dtype.name in HANDLE_TYPES:
            return tuple(inputs[: node.num_outputs])
        if node.op_def in _COPIES:
            return (inputs[0],)
        choice = self._kernels.choice(node)
        if not choice.has_function and any(isinstance(value, FirstRows) for value in inputs):
            raise NotTraceable("it reads rows whose count is computed in the same program")
        if choice.is_call:
            return self._call_node(node, inputs, state)
        if choice.has_function:
            return self._lowered(node, choice, inputs, state)
        if choice.kernel is not None and choice.kernel.definition.traces_variables:
            return self._variable_op(node, choice, inputs, state)
        return self.compute(node, inputs, state)

    @property
    def suppliers(self) -> frozenset[str]:
        """The distributions, with versions, of the kernels and lowerings that were traced."""
        return frozenset(self._kernels.suppliers)

    def kernel_of(self, node: Node) -> OpKernel:
        """Return the kernel of a node for traced values.

        Raises:
            NotTraceable: it has none.
        """
        return self._kernels.get(node)

    def is_main(self, graph: Graph) -> bool:
        """Return whether a graph is that of the cluster itself, not of a function."""
        return graph is self._bodies.main.body.graph

    def _lowered(
        self, node: Node, choice: LoweringChoice, inputs: list[Any], state: State
    ) -> tuple[Any, ...]:
        """Trace a node by its lowering."""
        trace = NodeTrace(self, node, inputs, state)
        assert choice.lowering is not None
        static = positions_of(node, choice.lowering.static)
        if static:
            trace.check_static(static, "its size and shape must be constant at compile time")
        self._check(node, choice, inputs, state, "inputs")
        result = self._kernels.lowered(node, [trace, *inputs])
        origin = self._kernels.origin_of_lowering(node)
        self._declared.check(node, f"the {origin.name}", inputs, result)
        outputs = outputs_of(node, result, origin)
        self._check(node, choice, list(outputs), state, "results")
        for value, expected in zip(outputs, node.output_types, strict=True):
            if not isinstance(value, (Absent, TracedVariable)):
                check_type(value, expected, origin)
        check_shapes(node, inputs, outputs, origin)
        return outputs

    def _check(
        self, node: Node, choice: LoweringChoice, values: list[Any], state: State, of: str
    ) -> None:
        """Add the checks of a node's inputs or results to the guard."""
        for check in choice.checks:
            if check.of == of:
                holds = self._kernels.holds(check, node, values)
                state[GUARD] = state[GUARD] & self._jnp.all(holds)

    # Ordinary nodes

    def compute(
        self, node: Node, inputs: list[Any], state: State, variable: TracedVariable | None = None
    ) -> tuple[Any, ...]:
        """Return the outputs of a node by its kernel.

        Args:
            node: the node.
            inputs: its inputs.
            state: the state, which is changed.
            variable: the traced variable that its kernel keeps between calls; None for none.

        Raises:
            NotTraceable: the kernel cannot be traced with these inputs.
        """
        if variable is None and all(map(is_static, inputs)):
            folded = self._fold(node, inputs)
            if folded is not None:
                return folded
        choice = self._kernels.choice(node)
        self._num_traced += 1
        is_own = variable is not None or choice.is_of_node
        key = None if is_own else self._replays.key_of(node, inputs)
        outputs = self._replays.find(key, inputs)
        if outputs is None:
            outputs = self._outputs_of_kernel(node, inputs, state, variable, key)
        else:
            self.rows.check(node, inputs)
        # After the kernel, because it rejects shapes that the checks do not support.
        if node not in self.rows:  # values of a deduplication pattern need no check
            self._check(node, choice, inputs, state, "inputs")
        self._check(node, choice, list(outputs), state, "results")
        if variable is None and all(value in self._marks for value in inputs):
            self._marks.add(outputs)
        return outputs

    def _outputs_of_kernel(
        self,
        node: Node,
        inputs: list[Any],
        state: State,
        variable: TracedVariable | None,
        key: Hashable,
    ) -> tuple[Any, ...]:
        """Call the kernel of a node, whose call has a key if it may be replayed."""
        kernel = self._kernels.get(node)
        definition = kernel.definition
        if not (definition.is_traceable if variable is None else definition.keeps_variable):
            raise NotTraceable(f"the kernel {definition.source} cannot be traced")
        if not all(map(is_array_value, inputs)):
            raise NotTraceable("an input is neither an array nor a pytree")
        traced = missing_static(node, definition, inputs)
        if traced:
            text = f"input {traced[0]} must be known at compile time"
            raise NeedsStatic(text, node, traced)
        self.rows.check(node, inputs)
        if variable is None:
            call = partial(self._replays.call, key, kernel.compute)
            result = attempted(call, inputs, definition.source, kernel.owner)
        else:
            result, state[variable] = called_with(kernel, inputs, state[variable])
        if definition.backend is not None:
            source = f"the kernel {definition.source}, backend={definition.backend!r},"
            self._declared.check(node, source, inputs, result)
        origin = Origin.of_kernel(kernel)
        outputs = _typed_outputs(node, result, origin)
        if origin.is_for_compiler:
            check_shapes(node, inputs, outputs, origin)
        return outputs

    def _fold(self, node: Node, inputs: list[Any]) -> tuple[Any, ...] | None:
        """Compute a node with static inputs; None if it has to be traced."""
        try:
            kernel = self._kernels.get(node, "numpy")
        except NotTraceable:
            return None
        definition = kernel.definition
        if definition.stateful or definition.effects or effects_of(node.op_def):
            return None
        outputs = _typed_outputs(node, called(kernel, inputs), Origin.of_kernel(kernel))
        leaves = [leaf for value in outputs for leaf in leaves_of(value)]
        if sum(np.asarray(leaf).nbytes for leaf in leaves) > _MAX_FOLDED_BYTES:
            return None
        return outputs

    # State

    def _variable_op(
        self, node: Node, choice: LoweringChoice, inputs: list[Any], state: State
    ) -> tuple[Any, ...]:
        """Call the op's own kernel with variables that hold traced values."""
        kernel = self._kernels.get(node)
        if kernel.definition.distinct_rows:
            self._require_distinct_rows(node, inputs, state)
            kernel.state[UNIQUE_INDICES] = True
        self._check(node, choice, inputs, state, "inputs")
        variables: dict[TracedVariable, Variable] = {}
        args = []
        for value in inputs:
            if not isinstance(value, TracedVariable):
                args.append(value)
                continue
            if value not in variables:
                variables[value] = _variable(value, state[value])
            variable = variables[value]
            is_ref = value.is_ref
            args.append(variable if is_ref else ResourceHandle("", "", "", "Variable", variable))
        context = OpKernelContext(None, kernel)  # type: ignore[arg-type]
        result = called(kernel, [context, *args])
        for key, variable in variables.items():
            state[key] = variable.value
        handles: dict[int, TracedVariable] = {id(v): key for key, v in variables.items()}
        outputs = outputs_of(node, result, Origin.of_kernel(kernel))
        return tuple(handles.get(id(value), value) for value in outputs)

    def _require_distinct_rows(self, node: Node, inputs: list[Any], state: State) -> None:
        """Check that the row indices of an update are unique and in range."""
        rows = self.rows.unique_input_of(node)
        if rows is None:
            raise NotTraceable("its row indices may contain duplicates")
        value = value_with_rows(inputs[0], state)
        require_rows_in_range(value, rows, state)

    # Functions

    def call_function(self, attr: FuncAttr, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a function of the library; return its results.

        Raises:
            NotTraceable: the program contains too many calls, as functions call each other twice.
        """
        self._num_calls += 1
        if self._num_calls > _MAX_CALLS:
            raise NotTraceable(f"the program would contain more than {_MAX_CALLS:,} function calls")
        return tuple(self.run(self._bodies.function(attr), inputs, state)[0])

    def _call_node(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a node that only calls functions, as its op declares."""
        calls = calls_of(node)
        first = calls[0].call.first_input
        kinds = {called.kind for called in calls}
        if kinds == {CallKind.ONCE} and len(calls) == 1:
            return self.call_function(calls[0].function, inputs[first:], state)
        if kinds == {CallKind.BRANCH}:
            return self._trace_branches(node, calls, inputs, state)
        if node.op_def.is_while:
            of_kind = {called.kind: called.function for called in calls}
            test, body = of_kind[CallKind.LOOP_CONDITION], of_kind[CallKind.LOOP_BODY]
            return self._trace_while(test, body, inputs[first:], state)
        raise NotTraceable("it calls functions in a way that the compiler does not support")

    def _function(self, attr: FuncAttr) -> Callable[..., Any]:
        scheduled = self._bodies.function(attr)

        def call(args: Sequence[Any], state: State) -> tuple[list[Any], State]:
            self._depth += 1
            try:
                results, after = self.run(scheduled, list(args), state)
            finally:
                self._depth -= 1
            if any(isinstance(result, FirstRows) for result in results):
                raise NotTraceable(f"function {attr.name} returns a data-dependent number of rows")
            return results, after

        return call

    def _body(self, attr: FuncAttr) -> FunctionBody:
        return self._bodies.function(attr).body

    def _trace_while(
        self, test_function: FuncAttr, body_function: FuncAttr, inputs: list[Any], state: State
    ) -> tuple[Any, ...]:
        """Trace a functional loop."""
        test = self._bodies.function(test_function)
        body = self._bodies.function(body_function)
        trips = trip_count_of(test.body, body.body, inputs, self._body)
        is_long = trips is None or trips.maximum > _MAX_UNCANCELLABLE_ITERATIONS
        capacity = None
        if trips is not None and (trips.is_exact or trips.maximum <= _MAX_RESERVED_CAPACITY):
            capacity = trips.maximum
        if trips is not None and trips.is_exact:
            self.trips[body_function.name] = trips.maximum
        functions = self._function(test_function), self._function(body_function)
        before = dict(state)
        try:
            results, after = trace_while(
                *functions,
                inputs,
                state,
                invariant=pass_through(body.body),
                trips=capacity,
                limit=self._limit
                if (is_long and (not self._depth or ITERATIONS_LEFT in state))
                or (self._limit is not None and self._limit.takes_every_loop)
                else None,
            )
        except ShapesChange as change:
            why = f"{change}, and "
            results, after = unrolled(*functions, inputs, state, lambda: self._num_traced, why)
        else:
            self.has_inner_loop |= is_long and self._depth > 0
            if is_long:
                self.limited_loops[body_function.name] = None
            count_run(body_function.name, before, after)
            if is_long and not self._depth:
                is_known = body_function.name in self.trips
                self.preemptible_loops.append("" if is_known else body_function.name)
        if trips is not None:
            results, after = with_static_lengths(body.body, inputs, results, state, after, trips)
        _update(state, after)
        return tuple(results)

    def _trace_branches(
        self, node: Node, calls: list[CalledFunction], inputs: list[Any], state: State
    ) -> tuple[Any, ...]:
        """Trace a branch: by a predicate between two functions, by an index among several."""
        is_predicate = len({called.call.attr for called in calls}) > 1
        if is_predicate and np.ndim(inputs[0]) and was_switch(node):
            raise NotTraceable("its predicate is not a scalar")
        branches = [self._function(called.function) for called in calls]
        if is_predicate:
            branches.reverse()  # the first function is that for a true predicate
        return self._choose(inputs[0], branches, inputs[1:], state)

    @staticmethod
    def _choose(
        pred: Any, branches: list[Callable[..., Any]], args: list[Any], state: State
    ) -> tuple[Any, ...]:
        if len(branches) == 2 and pred.dtype != np.bool_ and not np.ndim(pred):
            pred = pred != 0
        results, after = trace_cond(pred, branches, args, state)
        _update(state, after)
        return tuple(results)


def _typed_outputs(node: Node, result: Any, origin: Origin) -> tuple[Any, ...]:
    """Return the result of a kernel as outputs of the dtypes that its node declares."""
    outputs = outputs_of(node, result, origin)
    for value, expected in zip(outputs, node.output_types, strict=True):
        if expected.base_dtype.name == VARIANT:
            flatten(value)  # raises if it is not a pytree
        check_type(value, expected, origin)
    return outputs


def _update(state: State, after: State) -> None:
    if after is not state:
        state.clear()
        state.update(after)


def _variable(handle: TracedVariable, value: Any) -> Variable:
    kind = Ref if handle.is_ref else Variable
    variable = kind(as_dtype(value.dtype), tuple(value.shape), handle.name)
    variable.value = value
    return variable


def _read(value: Any, state: State) -> Any:
    """Return a result of a body, which is the value of a reference."""
    return state[value] if isinstance(value, TracedVariable) and value.is_ref else value
