"""The loops and conditionals of a graph under construction, and the nodes in each."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.graph.node import Node
from graphmill.graph.node_roles import is_exit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.graph.control_flow.control_flow_context import ControlFlowContext
    from graphmill.graph.scopes.control_scopes import ControlScopes
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef


class ControlFlowScopes:
    """The control flow of one graph.

    Attributes:
        current: the loop or branch of new nodes; None outside of all.
        controls: the control dependency scopes of the graph.
    """

    def __init__(self, controls: ControlScopes) -> None:
        self.current: ControlFlowContext | None = None
        self.controls = controls
        self._contexts: dict[Node, ControlFlowContext] = {}
        self._is_checked = True

    @contextmanager
    def entered(self, context: ControlFlowContext | None) -> Iterator[None]:
        """Add nodes of the block to a context; None means outside of all."""
        outer, self.current = self.current, context
        try:
            yield
        finally:
            self.current = outer

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """Allow nodes of the block to use tensors of any context."""
        outer, self._is_checked = self._is_checked, False
        try:
            yield
        finally:
            self._is_checked = outer

    def context_of(self, node: Node) -> ControlFlowContext | None:
        """Return the loop or branch that a node is in."""
        return self._contexts.get(node)

    def home_of(self, node: Node) -> ControlFlowContext | None:
        """Return the loop or branch in which the outputs of a node can be used.

        That is the node's own context; for an `Exit`, the enclosing one.
        """
        context = self._contexts.get(node)
        return context.outer if context is not None and is_exit(node) else context

    def put(self, node: Node, context: ControlFlowContext | None) -> None:
        """Record the context of a node."""
        if context is None:
            self._contexts.pop(node, None)
        else:
            self._contexts[node] = context

    def admit(
        self, name: str, op_def: OpDef, inputs: Sequence[Tensor], control_inputs: Sequence[Node]
    ) -> tuple[Sequence[Tensor], Sequence[Node]]:
        """Return the inputs of a new node, captured where needed.

        Args:
            name: its name, for messages.
            op_def: its op.
            inputs: its input tensors.
            control_inputs: the nodes that it has to wait for.

        Raises:
            InvalidArgumentError: one was made in a loop or branch that the new node is not in.
        """
        if self.current is None and not self._contexts:
            return inputs, control_inputs
        if self._is_checked:
            self._check(name, op_def, inputs, control_inputs)
        if self.current is None:
            return inputs, control_inputs
        return self.current.admit(op_def, inputs, control_inputs)

    def check_use(self, source: Tensor | Node, user: str) -> None:
        """Check that a tensor can be used, or a node waited for, in the current context.

        Args:
            source: the tensor, or the node.
            user: what uses it, for messages.

        Raises:
            InvalidArgumentError: it was made in a loop or branch that the current one is not in.
        """
        home = self.home_of(source if isinstance(source, Node) else source.op)
        if home is None or (self.current is not None and self.current.is_within(home)):
            return
        place = (
            "outside of all loops and branches" if self.current is None else f"in {self.current}"
        )
        raise InvalidArgumentError(
            f"{source.name!r} was created in {home} and cannot be used by {user}, which is "
            f"{place}; return it from the function that creates it, and use the result"
        )

    def _check(
        self, name: str, op_def: OpDef, inputs: Sequence[Tensor], control_inputs: Sequence[Node]
    ) -> None:
        user = f"node {name!r} (op {op_def.name})"
        for tensor in inputs:
            self.check_use(tensor, user)
        for node in control_inputs:
            self.check_use(node, user)
