"""`CondContext`: one branch of a conditional that is being built.

Semantics: CondContext of tensorflow/python/ops/control_flow_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.control_flow.control_flow_context import ControlFlowContext
from graphmill.ops import control_flow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.while_context import WhileContext
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef


class CondContext(ControlFlowContext):
    """A branch: tensors from outside are captured by a `Switch`, and dead if it is not taken.

    Attributes:
        pred: the predicate.
        branch: which branch, 1 for the one that is taken if `pred` is true.
    """

    def __init__(self, graph: Graph, pred: Tensor, pivot: Tensor, branch: int) -> None:
        """Start a branch.

        Args:
            graph: the graph.
            pred: the predicate.
            pivot: an output of the predicate's own `Switch`, live if the branch is taken.
            branch: 1 for the true branch, 0 for the false one.
        """
        super().__init__(graph, "cond_text")
        self.pred = pred
        self.branch = branch
        self._pivot = pivot
        graph.control_flow.put(pivot.op, self)

    def __str__(self) -> str:
        return f"the {'true' if self.branch else 'false'} branch {self.name!r}"

    @property
    def pivot(self) -> Tensor:
        """The tensor that is live if the branch is taken."""
        return self._pivot

    @property
    def loop(self) -> WhileContext | None:
        """The innermost enclosing loop."""
        return self.outer.loop if self.outer is not None else None

    def admit(
        self, op_def: OpDef, inputs: Sequence[Tensor], control_inputs: Sequence[Node]
    ) -> tuple[list[Tensor], list[Node]]:
        """Capture inputs from outside; make a node without inputs wait for the pivot."""
        waits = self.reachable(control_inputs)
        captured = [self.capture(tensor) for tensor in inputs]
        is_tied = bool(inputs) or any(self._is_here(node) for node in waits)
        if not is_tied or self.is_call(op_def):
            waits.append(self.pivot.op)
        return captured, waits

    def add_value(self, tensor: Tensor) -> Tensor:
        """Add a `Switch` on the tensor's device, and return its output for this branch."""
        with self.outside_of_all():
            return switch(tensor, self.pred)[self.branch]

    def result(self, tensor: Tensor) -> Tensor:
        """Return the branch's result for a tensor, which may be from outside."""
        if self.holds(tensor) or tensor in self._captures:
            return self.capture(tensor)
        captured = tensor if self.outer is None else self.outer.capture(tensor)
        flow = self.graph.control_flow
        # Unlike a captured input of a node, this waits for the conditional's control inputs.
        with flow.entered(self.outer):
            branch_value = switch(captured, self.pred)[self.branch]
        flow.put(branch_value.op, self)
        self._captures[tensor] = self._captures[captured] = branch_value
        return branch_value

    def _is_here(self, node: Node) -> bool:
        context = self.graph.control_flow.context_of(node)
        return context is not None and context.is_within(self)


def switch(tensor: Tensor, pred: Tensor) -> tuple[Tensor, Tensor]:
    """Add a `Switch` on the device of its tensor.

    Returns:
        The output for false, and that for true.
    """
    with tensor.graph.colocate_with(tensor, ignore_existing=True):
        if tensor.dtype.is_ref:
            return control_flow.ref_switch(tensor, pred, name="Switch")
        return control_flow.switch(tensor, pred)
