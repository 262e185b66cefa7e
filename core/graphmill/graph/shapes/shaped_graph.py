"""`ShapedGraph`: a graph that infers static shapes on demand (clause G5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph import graph as ir
from graphmill.graph.node import output_name
from graphmill.ops.attrs.attr_types import ShapeAttr

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.node import Node
    from graphmill.graph.shapes.shape_refiner import GraphShapes
    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.ops.inference.tensor_shape import TensorShape
    from graphmill.typing import Shape


class ShapedGraph(ir.Graph):
    """A graph that infers the static shapes of its nodes' outputs.

    Shapes are inferred on demand, and cached until a node that they depend on changes.

    Attributes:
        ops: definitions of the ops of its functions' nodes.
    """

    ops: OpRegistry

    def __init__(self) -> None:
        self._shapes: GraphShapes | None = None
        self._declared: dict[Node, tuple[TensorShape, ...]] = {}
        super().__init__()

    def shapes_of(self, node: Node) -> tuple[TensorShape, ...]:
        """Return the static shapes of a node's outputs.

        Raises:
            InvalidArgumentError: the node, or one that it depends on, has invalid inputs.
            InternalError: a plugin's shape function is faulty.
        """
        return self._refiner().of(node)

    def declare_shape(self, tensor: Tensor, shape: TensorShape) -> None:
        """Merge what a program knows about the shape of a tensor with its static shape.

        Nodes that read the tensor and are in the graph already keep their shapes.

        Raises:
            InvalidValueError: the shapes contradict each other.
        """
        node = tensor.op
        shapes = list(self.shapes_of(node))
        try:
            shapes[tensor.value_index] = shapes[tensor.value_index].merge_with(shape)
        except InvalidArgumentError as error:
            raise InvalidValueError(f"{output_name(tensor)}: {error.message}") from error
        self._declared[node] = tuple(shapes)
        self._refiner().refine(node, self._declared[node])

    def declared_shape(self, name: str, output: int) -> Shape:
        """Return the static shape of a tensor whose shape, or a sibling's, was declared."""
        shapes = self._declared.get(self.node(name)) if self._declared else None
        if shapes is None or shapes[output].dims is None:
            return None
        return ShapeAttr(-1 if size is None else size for size in shapes[output])

    def check_shapes(self) -> None:
        """Infer the shapes of all nodes.

        Raises:
            InvalidArgumentError: a node has invalid inputs, so that running it would fail; the
                message names the node.
            InternalError: a plugin's shape function is faulty.
        """
        for node in self.nodes:
            self.shapes_of(node)

    def replace_input(self, dst: Node, dst_input: int, src: Node, src_output: int) -> None:
        """Make an input read another output; see `graphmill.graph.graph.Graph`."""
        self._forget_shapes([dst])
        super().replace_input(dst, dst_input, src, src_output)

    def redirect(self, old: Node, old_output: int, new: Node, new_output: int) -> None:
        """Make all consumers of one output read another; see `graphmill.graph.graph.Graph`."""
        self._forget_shapes(edge.dst for edge in old.out_edges)
        super().redirect(old, old_output, new, new_output)

    def set_attr(self, node: Node, name: str, value: Any) -> None:
        """Set an attr of a node; see `graphmill.graph.graph.Graph`."""
        self._forget_shapes([node])
        super().set_attr(node, name, value)

    def withdraw(self, nodes: Iterable[Node]) -> None:
        """Remove nodes and their edges; see `graphmill.graph.graph.Graph`."""
        removed = list(nodes)
        self._forget_shapes(removed)
        for node in removed:
            self._declared.pop(node, None)
        super().withdraw(removed)

    def _refiner(self) -> GraphShapes:
        if self._shapes is None or not self._shapes.knows(self.library):
            from graphmill.graph.shapes.shape_refiner import (
                shapes_with_calls,  # most programs ask none
            )

            self._shapes = shapes_with_calls(self.library, self.ops, self._declared)
        return self._shapes

    def _forget_shapes(self, nodes: Iterable[Node]) -> None:
        if self._shapes is not None:
            self._shapes.forget(nodes)
