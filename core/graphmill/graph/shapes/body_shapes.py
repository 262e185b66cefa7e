"""Infer the static shapes of a function body's tensors from the shapes of its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.functions.called_shapes import Arg
from graphmill.graph.node_roles import is_argument
from graphmill.graph.shapes.shape_refiner import shapes_with_calls
from graphmill.ops.inference.tensor_shape import TensorShape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.typing import Shape


def body_shapes(
    body: FunctionBody, args: Sequence[Shape], ops: OpRegistry
) -> Callable[[Node], tuple[Shape, ...]]:
    """Return a function that infers the shapes of the outputs of a node of a body.

    It raises InvalidArgumentError if the node, or one that it depends on, has invalid inputs.

    Args:
        body: the body; functions that it calls are followed.
        args: the shape of each argument: sizes with -1 for unknown ones, or None.
        ops: definitions of the ops of the functions' nodes.
    """
    known = {
        node: Arg(_static(args[node.attrs["index"]]))
        for node in body.graph.nodes
        if is_argument(node)
    }
    shapes = shapes_with_calls(body.graph.library, ops).with_arguments(known)
    return lambda node: tuple(map(_sizes, shapes.of(node)))


def _static(shape: Shape) -> TensorShape:
    if shape is None:
        return TensorShape(None)
    return TensorShape([None if size < 0 else size for size in shape])


def _sizes(shape: TensorShape) -> Shape:
    if shape.rank is None:
        return None
    return tuple(-1 if size is None else size for size in shape)
