"""`Tracer`: compute a routine with values that JAX traces.

Values are as `values` describes them. What is known stays known: a node whose inputs are all
NumPy arrays is computed by its NumPy kernel, here and now, so that shape arithmetic folds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.ops.attr_types import FuncAttr
from graphmill.ops.effects import effects_of
from graphmill.ops.system_ops import COPY_TO_DEVICE, COPY_TO_HOST
from graphmill.runtime.kernel import DISTINCT_ROWS
from graphmill.runtime.kernel_io import refs_to_read
from graphmill.runtime.op_kernel_context import OpKernelContext
from graphmill.runtime.variables import Ref, ResourceHandle, Variable
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.errors import NeedsKnown, NotTraceable, ShapesChange
from graphmill_plugins.jit.programs.long_loops import TURNS
from graphmill_plugins.jit.regions.eligibility import SOURCES
from graphmill_plugins.jit.tracing.checks import CHECKS, RESULT_CHECKS
from graphmill_plugins.jit.tracing.conditionals import trace_cond
from graphmill_plugins.jit.tracing.counts import COUNTING, Counts
from graphmill_plugins.jit.tracing.distinct import DistinctRows
from graphmill_plugins.jit.tracing.elements import GUARD, Elements, FirstRows, is_known
from graphmill_plugins.jit.tracing.grown_lists import with_known_lengths
from graphmill_plugins.jit.tracing.loop_shape import pass_through, turns_of
from graphmill_plugins.jit.tracing.loops import trace_while
from graphmill_plugins.jit.tracing.moving_slices import NOTED, Numbers, sliced_at
from graphmill_plugins.jit.tracing.structures import LIST_VALUES, STRUCTURES
from graphmill_plugins.jit.tracing.traced_kernels import (
    TracedKernels,
    called,
    called_with,
    outputs_of,
    unknown_static,
)
from graphmill_plugins.jit.tracing.traced_ops import (
    FUNCTION_ATTRS,
    HANDLE_TYPES,
    SPARSE_UPDATES,
    STATIC,
    VARIABLE_OPS,
    was_switch,
)
from graphmill_plugins.jit.tracing.traced_variable import TracedVariable
from graphmill_plugins.jit.tracing.unrolled import unrolled
from graphmill_plugins.jit.tracing.unusual_values import UNUSUAL
from graphmill_plugins.jit.tracing.values import Absent, is_moving
from graphmill_plugins.jit.tracing.variable_rows import ROW_OPS, checked_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill_plugins._constants import Marks
    from graphmill_plugins.jit.programs.long_loops import Limit
    from graphmill_plugins.jit.routine import Routine, Routines
    from graphmill_plugins.jit.tracing.values import State

_COPIES: Final = frozenset({COPY_TO_DEVICE.name, COPY_TO_HOST.name})  # A program has one memory.
_OF_SOME_ROWS: Final = frozenset({"TensorArrayGatherV3"})
_MOST_FOLDED: Final = 1 << 20  # bytes of a known result
_FEW_TURNS: Final = 100_000
_MOST_ROOM: Final = 4_096  # elements that there is room for where a loop may end long before


class Tracer:
    """Traces the routines of one cluster.

    Args:
        routines: what is traced.
        constants: traced values that stand for large constants, by their nodes.
        handles: what stands for the variables that nodes name or keep, by these nodes.
        marks: what stays the same from call to call; grows by what is computed of such values.
        limit: ends loops that are not known to end after a few turns.

    Threads: used by one; kernels that it binds are its own.

    Attributes:
        has_inner_loop: whether such a loop is within another one, or in a conditional.
    """

    def __init__(
        self,
        routines: Routines,
        constants: Mapping[Node, Any],
        handles: Mapping[Node, TracedVariable],
        marks: Marks,
        limit: Limit | None = None,
    ) -> None:
        self.has_inner_loop = False
        self._limit = limit
        self._depth = 0  # in functions of loops and conditionals
        self._marks = marks
        marks.add(constants.values())
        self._routines = routines
        self._handles = handles
        self._constants = constants
        self._kernels = TracedKernels(routines.host, routines.policy)
        self._numbers = Numbers()
        self._counts = Counts()
        self._rows = DistinctRows(routines.main.body.graph)
        self._num_traced = 0
        self._jnp = jax_module().numpy

    def run(self, routine: Routine, args: list[Any], state: State) -> tuple[list[Any], State]:
        """Compute a routine; the state is changed in place and returned.

        Raises:
            NotTraceable: a node cannot be traced.
        """
        values: dict[Node, tuple[Any, ...]] = {}
        for node, arg in zip(routine.args, args, strict=True):
            if node is not None:
                values[node] = (arg,)
        for node in routine.nodes:
            inputs = [values[edge.src][edge.src_output] for edge in node.in_edges]
            try:
                values[node] = self._node(node, inputs, state)
            except NotTraceable as error:
                raise error.at(node) from None
        return [values[node][output] for node, output in routine.results], state

    def _node(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        for position in refs_to_read(node):
            if isinstance(inputs[position], TracedVariable):
                inputs[position] = state[inputs[position]]
        op = node.op
        if op not in _OF_SOME_ROWS and any(isinstance(value, FirstRows) for value in inputs):
            raise NotTraceable("it reads rows whose number is computed in the same program")
        if op == "Const":
            found = self._constants.get(node)
            return (node.attrs["value"].numpy() if found is None else found,)
        if node in self._handles:
            handle = self._handles[node]
            return (handle,) if op in SOURCES else self._compute(node, inputs, state, handle)
        if op in _SPECIAL:
            return _SPECIAL[op](self, node, inputs, state)
        if op in STRUCTURES:
            return self._structure_op(node, inputs, state)
        if op in LIST_VALUES and isinstance(inputs[0], Elements):
            return LIST_VALUES[op](state, inputs, node.attrs)
        if op in VARIABLE_OPS:
            return self._variable_op(node, inputs, state)
        if op in ROW_OPS:
            return ROW_OPS[op](node, inputs, state, self._rows.wanted(node))
        if op in SPARSE_UPDATES:
            return self._sparse_update(node, inputs, state)
        if op in node.graph.library:
            return self._call(FuncAttr(op, node.attrs), inputs, state)
        if op in _COPIES or (
            op == "Identity" and node.input_types[0].base_dtype.name in HANDLE_TYPES
        ):
            return (inputs[0],)
        return self._compute(node, inputs, state)

    # Ordinary nodes

    def _compute(
        self, node: Node, inputs: list[Any], state: State, kept: TracedVariable | None = None
    ) -> tuple[Any, ...]:
        """Return the outputs; `kept` stands for what its kernel keeps, if it keeps anything."""
        if kept is None and all(map(is_known, inputs)):
            folded = self._fold(node, inputs)
            if folded is not None:
                return folded
        kernel = self._kernels.get(node)
        definition = kernel.definition
        if not (definition.is_traceable if kept is None else definition.keeps_variable):
            raise NotTraceable(f"the kernel {definition.source} cannot be traced")
        if not all(map(is_moving, inputs)):
            raise NotTraceable("an input is no array")
        self._num_traced += 1
        unknown = unknown_static(node, definition, inputs)
        if unknown and node.op == "Range":
            numbers = self._counts.numbers(node, inputs)
            if numbers is not None:
                return self._typed(node, (numbers,))
        if unknown:
            sliced = sliced_at(self._numbers, kernel, node, inputs, state)
            if sliced is not None:
                return self._typed(node, (sliced,))
            text = f"input {unknown[0]} must be known when it is compiled"
            raise NeedsKnown(text, node, unknown)
        self._rows.check(node, inputs)
        if kept is None:
            result = called(kernel, inputs)
        else:
            result, state[kept] = called_with(kernel, inputs, state[kept])
        found = self._typed(node, outputs_of(node, result))
        if node.op in NOTED:
            self._numbers.note(node, inputs, found[0])
        # After the kernel, which refuses the shapes that a check does not expect.
        check = CHECKS.get(node.op)
        if check is not None and node not in self._rows:  # what is made there is as it should
            state[GUARD] = check(self._jnp, node, inputs, state[GUARD])
        for unusual in UNUSUAL.get(node.op, ()):
            state[GUARD] = unusual(self._jnp, node, inputs, state[GUARD])
        check_results = RESULT_CHECKS.get(node.op)
        if check_results is not None:
            state[GUARD] = check_results(self._jnp, node, found, state[GUARD])
        if kept is None and all(value in self._marks for value in inputs):
            self._marks.add(found)
        return found

    def _fold(self, node: Node, inputs: list[Any]) -> tuple[Any, ...] | None:
        """Compute a node whose inputs are known; None if only a compiler should."""
        try:
            kernel = self._kernels.get(node, "numpy")
        except NotTraceable:
            return None
        definition = kernel.definition
        if definition.stateful or definition.effects or effects_of(node.op_def):
            return None
        found = outputs_of(node, called(kernel, inputs))
        if sum(np.asarray(value).nbytes for value in found) > _MOST_FOLDED:
            return None
        return self._typed(node, found)

    @staticmethod
    def _typed(node: Node, outputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for value, expected in zip(outputs, node.output_types, strict=True):
            _check_type(value, expected)
        return outputs

    # State

    def _structure_op(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        unknown = [i for i in STATIC.get(node.op, ()) if not is_known(inputs[i])]
        if unknown and node.graph is self._routines.main.body.graph:
            raise NeedsKnown("its size and shape must be known", node, unknown)
        outputs: tuple[Any, ...] = STRUCTURES[node.op](state, inputs, node.attrs)
        if node.op in COUNTING:
            self._counts.note(inputs[0], outputs[0], state)
        tensors = zip(outputs, node.output_types, strict=True)
        for value, expected in ((v, t) for v, t in tensors if t.name not in HANDLE_TYPES):
            _check_type(value, expected)
        return outputs

    def _variable_op(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Call the op's own kernel with variables that hold traced values."""
        check = CHECKS.get(node.op)
        if check is not None:
            state[GUARD] = check(self._jnp, node, inputs, state[GUARD])
        kernel = self._kernels.get(node)
        held: dict[TracedVariable, Variable] = {}
        given = []
        for value in inputs:
            if not isinstance(value, TracedVariable):
                given.append(value)
                continue
            if value not in held:
                held[value] = _variable(value, state[value])
            variable = held[value]
            is_ref = value.is_ref
            given.append(variable if is_ref else ResourceHandle("", "", "", "Variable", variable))
        context = OpKernelContext(None, kernel)  # type: ignore[arg-type]
        result = called(kernel, [context, *given])
        for key, variable in held.items():
            state[key] = variable.value
        handles: dict[int, TracedVariable] = {id(v): key for key, v in held.items()}
        return tuple(handles.get(id(value), value) for value in outputs_of(node, result))

    def trace_unique(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace what finds the rows that a gradient has updates for."""
        del state
        return self._rows.find(node, inputs[0])

    def _sparse_update(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace an optimizer's update of rows, none of which comes twice."""
        rows = self._rows.wanted(node)
        if rows is None:
            raise NotTraceable("the rows that it updates may repeat")
        checked_rows(node, inputs[0], rows, state)
        self._kernels.get(node).state[DISTINCT_ROWS] = True
        return self._variable_op(node, inputs, state)

    # Functions

    def _call(self, attr: FuncAttr, inputs: list[Any], state: State) -> tuple[Any, ...]:
        return tuple(self.run(self._routines.function(attr), inputs, state)[0])

    def _function(self, attr: FuncAttr) -> Callable[..., Any]:
        routine = self._routines.function(attr)

        def call(args: Sequence[Any], state: State) -> tuple[list[Any], State]:
            self._depth += 1
            try:
                results, after = self.run(routine, list(args), state)
            finally:
                self._depth -= 1
            if any(isinstance(result, FirstRows) for result in results):
                raise NotTraceable(f"function {attr.name} gives rows whose number it computes")
            return results, after

        return call

    def _body(self, attr: FuncAttr) -> FunctionBody:
        return self._routines.function(attr).body

    def trace_partitioned_call(
        self, node: Node, inputs: list[Any], state: State
    ) -> tuple[Any, ...]:
        """Trace the function that is called."""
        return self._call(node.attrs["f"], inputs, state)

    def trace_while(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a loop of functions."""
        test = self._routines.function(node.attrs["cond"])
        body = self._routines.function(node.attrs["body"])
        turns = turns_of(test.body, body.body, inputs, self._body)
        is_long = turns is None or turns.most > _FEW_TURNS
        room = None
        if turns is not None and (turns.is_exact or turns.most <= _MOST_ROOM):
            room = turns.most
        functions = self._function(node.attrs["cond"]), self._function(node.attrs["body"])
        try:
            results, after = trace_while(
                *functions,
                inputs,
                state,
                invariant=pass_through(body.body),
                trips=room,
                limit=self._limit if is_long and (not self._depth or TURNS in state) else None,
            )
        except ShapesChange:
            results, after = unrolled(*functions, inputs, state, lambda: self._num_traced)
        else:
            self.has_inner_loop |= is_long and self._depth > 0
        if turns is not None:
            results, after = with_known_lengths(body.body, inputs, results, state, after, turns)
        _update(state, after)
        return tuple(results)

    def trace_if(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a conditional."""
        if np.ndim(inputs[0]) and was_switch(node):
            raise NotTraceable("its predicate is no scalar")
        branches = [self._function(node.attrs[name]) for name in ("else_branch", "then_branch")]
        return self._choose(inputs[0], branches, inputs[1:], state)

    def trace_case(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Trace a choice among functions."""
        branches = [self._function(attr) for attr in node.attrs["branches"]]
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

    # Others

    def trace_nothing(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Return nothing: control edges are kept by the order of nodes."""
        del node, inputs, state
        return ()

    def trace_fake_param(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Return what stands for a value that nobody reads."""
        del node, inputs, state
        return (Absent(),)

    def trace_assert(self, node: Node, inputs: list[Any], state: State) -> tuple[Any, ...]:
        """Note whether the condition holds."""
        del node
        if np.ndim(inputs[0]):
            raise NotTraceable("its condition is no scalar")
        state[GUARD] = state[GUARD] & self._jnp.all(inputs[0])
        return ()


_SPECIAL: Final[dict[str, Callable[..., tuple[Any, ...]]]] = {
    "NoOp": Tracer.trace_nothing,
    "ControlTrigger": Tracer.trace_nothing,
    "FakeParam": Tracer.trace_fake_param,
    "Assert": Tracer.trace_assert,
    "Unique": Tracer.trace_unique,
    "PartitionedCall": Tracer.trace_partitioned_call,
    "StatefulPartitionedCall": Tracer.trace_partitioned_call,
    "While": Tracer.trace_while,
    "StatelessWhile": Tracer.trace_while,
    "If": Tracer.trace_if,
    "StatelessIf": Tracer.trace_if,
    "Case": Tracer.trace_case,
    "StatelessCase": Tracer.trace_case,
}
assert set(FUNCTION_ATTRS) <= set(_SPECIAL)


def _check_type(value: Any, expected: DType) -> None:
    if value.dtype != expected.base_dtype.as_numpy_dtype:
        raise NotTraceable(f"it gives {as_dtype(value.dtype).name}, not {expected.name}")


def _update(state: State, after: State) -> None:
    if after is not state:
        state.clear()
        state.update(after)


def _variable(handle: TracedVariable, value: Any) -> Variable:
    kind = Ref if handle.is_ref else Variable
    variable = kind(as_dtype(value.dtype), tuple(value.shape), handle.name)
    variable.value = value
    return variable
