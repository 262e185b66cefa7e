"""`ShapedGraph`: a graph with static shapes as far as they are known (row G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.graph import graph as ir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.node import Node
    from graphmill.graph.shapes.shape_refiner import GraphShapes
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.ops.inference.tensor_shape import TensorShape


class ShapedGraph(ir.Graph):
    """A graph whose nodes are asked for the shapes of their outputs.

    They are worked out when somebody asks, and kept until a node that was there is changed.

    Attributes:
        ops: what the nodes of its functions may be.
    """

    ops: OpRegistry

    def __init__(self) -> None:
        self._shapes: GraphShapes | None = None
        super().__init__()

    def shapes_of(self, node: Node) -> tuple[TensorShape, ...]:
        """Return what is known of the shapes of a node's outputs before the graph runs.

        Raises:
            InvalidArgumentError: the node, or one that it needs, cannot have its inputs.
            InternalError: a plugin's shape function is at fault.
        """
        if self._shapes is None or not self._shapes.knows(self.library):
            from graphmill.graph.shapes.shape_refiner import (
                shapes_with_calls,  # most programs ask none
            )

            self._shapes = shapes_with_calls(self.library, self.ops)
        return self._shapes.of(node)

    def check_shapes(self) -> None:
        """Work out the shapes of all nodes.

        Raises:
            InvalidArgumentError: a node cannot have its inputs: running it would fail. Names it.
            InternalError: a plugin's shape function is at fault.
        """
        for node in self.nodes:
            self.shapes_of(node)

    def replace_input(self, dst: Node, dst_input: int, src: Node, src_output: int) -> None:
        """Make an input read another output; as in `graphmill.graph.graph.Graph`."""
        self._forget_shapes([dst])
        super().replace_input(dst, dst_input, src, src_output)

    def redirect(self, old: Node, old_output: int, new: Node, new_output: int) -> None:
        """Make everything that reads one output read another; as there."""
        self._forget_shapes(edge.dst for edge in old.out_edges)
        super().redirect(old, old_output, new, new_output)

    def set_attr(self, node: Node, name: str, value: Any) -> None:
        """Change an attr of a node; as there."""
        self._forget_shapes([node])
        super().set_attr(node, name, value)

    def withdraw(self, nodes: Iterable[Node]) -> None:
        """Take back nodes, with their edges; as there."""
        gone = list(nodes)
        self._forget_shapes(gone)
        super().withdraw(gone)

    def _forget_shapes(self, nodes: Iterable[Node]) -> None:
        if self._shapes is not None:
            self._shapes.forget(nodes)
