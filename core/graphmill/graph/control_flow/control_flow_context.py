"""`ControlFlowContext`: one loop, or one branch of a conditional, while a graph is being built.

Nodes inside use tensors from outside only through a node that captures them: an `Enter` of the
loop, a `Switch` of the conditional. The context adds that node, once for each tensor.

Semantics: ControlFlowContext of tensorflow/python/ops/control_flow_ops.py. One rule is simpler
than there: a node inside of a loop that must wait for one outside gets an edge from a signal that
is brought in, unless the loop as a whole waits for it already. TensorFlow brings in one for each
waiting node, and drops the dependency where the awaited node has no outputs or the waiting one is
in a conditional.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING

from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.while_context import WhileContext
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef


class ControlFlowContext(ABC):
    """A loop or a branch.

    Attributes:
        graph: the graph it is built in.
        name: unique in the graph; for a loop, the name of its frame.
        outer: the enclosing context; None for none.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        """Begin a context inside the graph's current context."""
        self.graph = graph
        self.name = graph.unique_name(name)
        self.outer = graph.control_flow.current
        self._captures: dict[Tensor, Tensor] = {}

    @property
    @abstractmethod
    def pivot(self) -> Tensor:
        """A tensor that is available, and live, exactly when the context should run."""

    @property
    @abstractmethod
    def loop(self) -> WhileContext | None:
        """This context if it is a loop, else the innermost enclosing loop."""

    @abstractmethod
    def admit(
        self, op_def: OpDef, inputs: Sequence[Tensor], control_inputs: Sequence[Node]
    ) -> tuple[list[Tensor], list[Node]]:
        """Return the inputs and control inputs of a new node inside, captured where needed."""

    @abstractmethod
    def add_value(self, tensor: Tensor) -> Tensor:
        """Add the node that captures a tensor of the enclosing context; return its output."""

    def is_within(self, other: ControlFlowContext) -> bool:
        """Return whether this is `other` or a context inside of it."""
        context: ControlFlowContext | None = self
        while context is not None:
            if context is other:
                return True
            context = context.outer
        return False

    def holds(self, tensor: Tensor) -> bool:
        """Return whether a tensor was made in this context or in one inside of it."""
        home = self.graph.control_flow.home_of(tensor.op)
        return home is not None and home.is_within(self)

    def capture(self, tensor: Tensor) -> Tensor:
        """Return the tensor to use inside: the tensor itself if it was created there."""
        if self.holds(tensor):
            return tensor
        if tensor not in self._captures:
            captured = tensor if self.outer is None else self.outer.capture(tensor)
            if captured not in self._captures:
                self._captures[captured] = self.add_value(captured)
                self.graph.control_flow.put(self._captures[captured].op, self)
            self._captures[tensor] = self._captures[captured]
        return self._captures[tensor]

    def reachable(self, control_inputs: Iterable[Node]) -> list[Node]:
        """Return nodes of this context that replace control inputs from enclosing contexts.

        A control edge cannot enter a loop's frame. Nodes for which the whole loop waits already are
        left out.
        """
        loop = self.loop
        visited: dict[Node, None] = {}
        for node in control_inputs:
            home = self.graph.control_flow.home_of(node)
            if loop is None or (home is not None and home.loop is loop):
                visited[node] = None
            elif not loop.awaits(node):
                visited[loop.signal_of(node)] = None
        return list(visited)

    def is_call(self, op_def: OpDef) -> bool:
        """Return whether an op runs a function of the graph's library.

        If its body is inlined, constants in the body have no inputs that trigger them.
        """
        is_gradient = op_def.traits.calls_as(CallKind.GRADIENT)
        return is_gradient or op_def.name in self.graph.library

    @contextmanager
    def outside_of_all(self) -> Iterator[None]:
        """Build the nodes of the block outside of all contexts, without control inputs."""
        flow = self.graph.control_flow
        with self.graph.control_dependencies(None), flow.unchecked():
            yield
