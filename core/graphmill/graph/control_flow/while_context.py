"""`WhileContext`: a loop that is being built.

Semantics: WhileContext of tensorflow/python/ops/control_flow_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InternalError
from graphmill.graph.control_flow.control_flow_context import ControlFlowContext
from graphmill.graph.node_roles import is_constant_enter
from graphmill.ops import array, control_flow
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef


class WhileContext(ControlFlowContext):
    """A loop; it captures tensors from outside by a constant `Enter`, for all iterations.

    Attributes:
        parallel_iterations: the maximum number of iterations in flight.
        back_prop: whether the loop must support gradients.
        swap_memory: whether values that gradients need may be swapped to host memory.
    """

    def __init__(
        self,
        graph: Graph,
        parallel_iterations: int = 10,
        back_prop: bool = True,
        swap_memory: bool = False,
    ) -> None:
        """Begin a loop."""
        super().__init__(graph, "while_context")
        self.parallel_iterations = parallel_iterations
        self.back_prop = back_prop
        self.swap_memory = swap_memory
        self._pivot: Tensor | None = None
        self._awaited = graph.control_flow.controls.awaited()
        self._signals: dict[tuple[Node, Tensor], Node] = {}

    def __str__(self) -> str:
        return f"the loop {self.name!r}"

    @property
    def pivot(self) -> Tensor:
        """The first loop variable: its `Merge` while the test is built, then the body's input."""
        if self._pivot is None:
            raise InternalError(f"{self} has no variables yet")
        return self._pivot

    @pivot.setter
    def pivot(self, tensor: Tensor) -> None:
        self._pivot = tensor

    @property
    def loop(self) -> WhileContext:
        """The innermost loop around the context: this one."""
        return self

    def admit(
        self, op_def: OpDef, inputs: Sequence[Tensor], control_inputs: Sequence[Node]
    ) -> tuple[list[Tensor], list[Node]]:
        """Capture inputs from outside; tie a node with only invariant inputs to the pivot."""
        waits = self.reachable(control_inputs)
        captured = [self.capture(tensor) for tensor in inputs]
        is_free = not waits and (self.is_call(op_def) or all(map(is_invariant, captured)))
        if is_free or op_def.traits.calls_as(CallKind.ONCE):
            waits.append(self.pivot.op)
        return captured, waits

    def add_value(self, tensor: Tensor) -> Tensor:
        """Add a constant `Enter`."""
        return self._enter(tensor, is_constant=True)

    def enter_variable(self, initial: Tensor) -> Tensor:
        """Add the `Enter` of a loop variable, for a tensor of the enclosing context."""
        variable = self._enter(initial, is_constant=False)
        self.graph.control_flow.put(variable.op, self)
        self.graph.control_flow.controls.add_member(variable.op)
        if self.outer is not None and is_invariant(initial):
            # The outer loop's invariants exist in its last iteration too, which runs no body.
            self.graph.add_control_edge(self.outer.pivot.op, variable.op)
        return variable

    def awaits(self, node: Node) -> bool:
        """Return whether the whole loop waits for a node outside."""
        return node in self._awaited

    def signal_of(self, node: Node) -> Node:
        """Return a node in this loop that runs, in each iteration, after a node outside is done."""
        key = (node, self.pivot)
        if key not in self._signals:
            flow = self.graph.control_flow
            token = self._token(node)
            with self.graph.control_dependencies(None), flow.entered(self):
                self._signals[key] = array.identity(token).op
        return self._signals[key]

    def _token(self, node: Node) -> Tensor:
        """Return a tensor that is available when a node is done."""
        if node.output_types:
            return self.graph.outputs_of(node)[0]
        flow = self.graph.control_flow
        with (
            self.graph.control_dependencies(None),
            flow.entered(flow.home_of(node)),
            self.graph.control_dependencies([node]),
        ):
            return self.graph.constant(True, name="done")

    def _enter(self, tensor: Tensor, *, is_constant: bool) -> Tensor:
        enter = control_flow.ref_enter if tensor.dtype.is_ref else control_flow.enter
        with self.outside_of_all():
            entered = enter(
                tensor,
                frame_name=self.name,
                is_constant=is_constant,
                parallel_iterations=self.parallel_iterations,
            )
        for node in self._entry_waits(tensor.op):
            self.graph.add_control_edge(node, entered.op)
        return entered

    def _entry_waits(self, source: Node) -> list[Node]:
        """Return the nodes outside the loop that an `Enter` must wait for."""
        flow = self.graph.control_flow
        outside = []
        for node in flow.controls.control_inputs([source]):
            home = flow.home_of(node)
            if home is None or not home.is_within(self):
                outside.append(node)
        return outside if self.outer is None else self.outer.reachable(outside)


def is_invariant(tensor: Tensor) -> bool:
    """Return whether a tensor is the output of a constant `Enter`: the same in all iterations."""
    return is_constant_enter(tensor.op)
