"""`Optimizer`: builds the nodes that update variables from a loss.

Semantics: tensorflow/python/training/optimizer.py. A subclass declares the op that updates a
variable, the additional variables (slots) of each, and the hyperparameters. This module builds the
graph: gradients, slots, one update for each variable, and the global step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from graphmill.backprop.gated import gated
from graphmill.backprop.gradients import gradients
from graphmill.backprop.indexed_slices import IndexedSlices
from graphmill.deprecations import renamed_arguments, warn_renamed
from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.dependencies import group
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import VARIABLES_ADVICE, Variable, trainable_variables
from graphmill.ops import array, math
from graphmill.ops.definition.op_functions import add_op

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.backprop.indexed_slices import Gradient
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor

    Pair = tuple[Gradient | None, Variable]


class Optimizer:
    """Base of optimizers.

    Attributes:
        GATE_NONE, GATE_OP, GATE_GRAPH: values of `gate_gradients` of `compute_gradients`.
        update_op: name of the update op without "Resource", "Sparse" and "Apply": `Momentum`.
    """

    GATE_NONE: ClassVar[int] = 0
    GATE_OP: ClassVar[int] = 1
    GATE_GRAPH: ClassVar[int] = 2
    update_op: ClassVar[str]
    _slots: ClassVar[dict[str, str]] = {}
    """Name of each slot, by the name of its input of the update op."""

    def __init__(self, name: str, use_locking: bool, **numbers: Any) -> None:
        """Set the hyperparameters.

        Args:
            name: name of the optimizer, which its slots are named after.
            use_locking: whether updates hold the variable's lock.
            numbers: values, tensors or functions, by the names of the op's inputs.
        """
        self.name = name
        self.use_locking = use_locking
        self._numbers = numbers
        self._slot_variables: dict[tuple[Variable, str], Variable] = {}
        self._tensors: dict[tuple[Graph, str, Any], Tensor] = {}

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int | str | None = GATE_NONE,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Tensor | None = None,
    ) -> Node:
        """Return a node that updates the variables once, and adds one to the global step.

        Args:
            loss: the tensor to minimize.
            global_step: an integer variable that counts the updates.
            var_list: the variables; by default all trainable ones.
            gate_gradients: as for `compute_gradients`. A name is accepted with a warning for one
                version.
            aggregation_method, colocate_gradients_with_ops, grad_loss: as for
                `compute_gradients`.
            name: name of the node; by default the optimizer's.

        Raises:
            InvalidArgumentError: the loss depends on none of the variables.
        """
        if isinstance(gate_gradients, str):
            warn_renamed("the fourth argument of minimize, a name,", "name")
            name, gate_gradients = gate_gradients, self.GATE_NONE
        pairs = self.compute_gradients(
            loss,
            var_list,
            self.GATE_NONE if gate_gradients is None else gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        if all(gradient is None for gradient, _ in pairs):
            names = ", ".join(variable.variable_name for _, variable in pairs) or "none"
            raise InvalidArgumentError(
                f"No gradients provided for any variable: loss {loss.name!r} depends on none of "
                f"the variables ({names})"
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Tensor,
        var_list: Sequence[Variable] | None = None,
        gate_gradients: int = GATE_NONE,
        aggregation_method: int | None = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Tensor | None = None,
    ) -> list[Pair]:
        """Return pairs of the gradient of the loss for a variable and the variable.

        Args:
            loss: the tensor to minimize.
            var_list: the variables; by default all trainable ones.
            gate_gradients: `GATE_OP` if the gradients of the inputs of an op become available only
                together, `GATE_GRAPH` if all gradients do. The default is `GATE_NONE`: even then a
                step reads variables before it updates them.
            aggregation_method: how to add several gradients of one tensor, of `AggregationMethod`.
            colocate_gradients_with_ops: whether gradients are placed on the devices of their ops.
            grad_loss: the gradient with respect to the loss; by default ones.

        Raises:
            InvalidArgumentError: the graph has no trainable variables, `var_list` is empty, or an
                option has another value.
        """
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise InvalidValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, "
                f"Optimizer.GATE_GRAPH. Not {gate_gradients!r}"
            )
        chosen = trainable_variables(graph=loss.graph) if var_list is None else list(var_list)
        if not chosen:
            raise InvalidArgumentError(
                f"No variables to optimize: the graph has no trainable ones. {VARIABLES_ADVICE}"
            )
        grads = gradients(
            loss,
            chosen,
            grad_loss,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
        )
        if gate_gradients == self.GATE_GRAPH:
            grads = gated(grads)
        return list(zip(grads, chosen, strict=True))

    def apply_gradients(
        self,
        grads_and_vars: Iterable[Pair],
        global_step: Variable | None = None,
        name: str | None = None,
    ) -> Node:
        """Return a node that updates the variables that have a gradient.

        Raises:
            InvalidArgumentError: no variable has a gradient.
        """
        pairs = [(grad, variable) for grad, variable in grads_and_vars if grad is not None]
        if not pairs:
            raise InvalidArgumentError("No gradients provided for any variable")
        graph = infer_graph(pairs[0][1])
        with graph.as_default():
            for _, variable in pairs:
                self._create_slots(variable)
            self._prepare(graph)
            with graph.name_scope(name or self.name) as scope:
                updates = [self._updated(grad, variable) for grad, variable in pairs]
                return self._finished(updates, global_step, scope)

    def get_name(self) -> str:
        """Return the name of the optimizer."""
        return self.name

    def get_slot_names(self) -> list[str]:
        """Return the names of the slots."""
        return sorted({slot for _, slot in self._slot_variables})

    @renamed_arguments(variable="var")
    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """Return the slot variable of a variable, or None."""
        return self._slot_variables.get((var, name))

    def variables(self) -> list[Variable]:
        """Return the variables that the optimizer has created."""
        return list(self._slot_variables.values())

    # Subclasses may override these.

    def _create_slots(self, variable: Variable) -> None:
        for slot in self._slots.values():
            self._slot(variable, slot, lambda: array.zeros_like(variable.initial_value))

    def _prepare(self, graph: Graph) -> None:
        """Create the tensors that all updates share."""
        del graph

    def _inputs(self, variable: Variable) -> dict[str, Any]:
        """Return the inputs of the update op except the variable, its slots and the gradient."""
        return {
            name: self._number(variable.graph, name, variable.value_dtype) for name in self._numbers
        }

    def _attrs(self) -> dict[str, Any]:
        """Return the attrs of the update op."""
        return {}

    def _sparse(self, slices: IndexedSlices, variable: Variable) -> Node:
        """Update rows of a variable; the indices are unique."""
        return self._update("Sparse", variable, grad=slices.values, indices=slices.indices)

    def _finished(self, updates: list[Node], global_step: Variable | None, scope: str) -> Node:
        if global_step is None:
            return group(*updates, name=scope)
        graph: Any = global_step.graph
        with graph.control_dependencies([group(*updates, name="update")]):
            one = graph.constant(1, global_step.value_dtype, name="value")
            return _added(global_step, one, scope)

    # Building of the graph.

    def _slot(
        self,
        variable: Variable,
        name: str,
        initial: Callable[[], Any],
        variable_name: str | None = None,
    ) -> Variable:
        """Return a slot of a variable; create it with an initial value if it is missing.

        Args:
            variable: the variable.
            name: the name of the slot.
            initial: returns the initial value.
            variable_name: the last part of the slot variable's name; by default the optimizer's.
        """
        key = (variable, name)
        if key not in self._slot_variables:
            graph: Any = variable.graph
            with graph.control_dependencies(None), graph.name_scope(None):
                self._slot_variables[key] = Variable(
                    initial,
                    trainable=False,
                    name=f"{variable.variable_name}/{variable_name or self.name}",
                    dtype=variable.value_dtype,
                    shape=variable.static_shape,
                    use_resource=variable.is_resource,
                )
        return self._slot_variables[key]

    def _number(self, graph: Any, name: str, dtype: Any) -> Tensor:
        key = (graph, name, dtype)
        if key not in self._tensors:
            value = self._numbers[name]
            with graph.control_dependencies(None), graph.name_scope(None):
                value = value() if callable(value) else value
                tensor = graph.convert(value, name=f"{self.name}/{name}")
                if tensor.dtype.base_dtype is not dtype:
                    tensor = math.cast(tensor, DstT=dtype)
            self._tensors[key] = tensor
        return self._tensors[key]

    def _updated(self, grad: Gradient, variable: Variable) -> Node:
        graph: Any = variable.graph
        name = f"update_{variable.variable_name.replace('/', '_')}"
        with graph.name_scope(name), graph.colocate_with(variable.handle):
            if isinstance(grad, IndexedSlices):
                if variable.constraint is not None:
                    raise InvalidArgumentError(
                        f"the variable {variable.variable_name!r} has a constraint, which cannot "
                        "be applied to an update of some of its rows; make its gradient dense"
                    )
                return self._sparse(_deduplicated(grad), variable)
            update = self._dense(grad, variable)
            return update if variable.constraint is None else _constrained(variable, update)

    def _dense(self, grad: Tensor, variable: Variable) -> Node:
        return self._update("", variable, grad=grad)

    def _update(self, kind: str, variable: Variable, **arguments: Any) -> Node:
        """Add the op that updates a variable."""
        prefix = "Resource" if variable.is_resource else ""
        op_def = _op(variable.graph, f"{prefix}{kind}Apply{self.update_op}")
        by_name = {**self._inputs(variable), **arguments, "var": variable.handle}
        by_name["delta"] = arguments["grad"]
        for input_name, slot in self._slots.items():
            by_name[input_name] = self._slot_variables[variable, slot].handle
        inputs = [by_name[arg.name] for arg in op_def.input_args]
        attrs = {**self._attrs(), "use_locking": self.use_locking}
        update = add_op(op_def, inputs, attrs)
        node: Node = update if variable.is_resource else update.op
        return node


def _op(graph: Any, name: str) -> Any:
    return graph.ops.get(name)


def _added(variable: Variable, value: Tensor, name: str) -> Node:
    from graphmill.ops import state

    if variable.is_resource:
        node: Node = state.assign_add_variable_op(variable.handle, value, name=name)
        return node
    return state.assign_add(variable.handle, value, name=name).op


def _constrained(variable: Variable, update: Node) -> Node:
    """Add the assignment of the updated value after the variable's constraint was applied."""
    graph: Any = variable.graph
    with graph.control_dependencies([update]):
        value = variable.constraint(variable.read_value())  # type: ignore[misc]
        node: Node = variable.assign(value, read_value=False)
    return node


def _deduplicated(slices: IndexedSlices) -> IndexedSlices:
    """Sum the rows of equal indices, so that each row is updated once."""
    unique = array.unique(slices.indices)
    count = array.shape(unique.y)[0]
    values = math.unsorted_segment_sum(slices.values, unique.idx, count)
    return IndexedSlices(values, unique.y, slices.dense_shape)
