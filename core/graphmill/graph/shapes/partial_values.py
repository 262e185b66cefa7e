"""Infer static values, possibly partial, of tensors before the graph runs.

Ops declare their inference with `graphmill.ops.inference.value_inference`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.ops.inference.value_inference import MAX_STATIC_ELEMENTS, value_function

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from graphmill.graph.node import Node
    from graphmill.ops.inference.tensor_shape import TensorShape

    Partial = NDArray[Any] | None
    ShapeOf = Callable[[Node, int], TensorShape]

_MAX_DEPTH: Final = 24  # recursive calls; sizes are computed by a few nodes


def partial_value(node: Node, output: int, shape_of: ShapeOf, depth: int = 0) -> Partial:
    """Return the static value of an output, as far as it can be inferred.

    Args:
        node, output: the tensor.
        shape_of: returns the static shape of a tensor.
        depth: the recursion depth so far.

    Returns:
        The array of a constant; for computed integers an array of objects, of rank 0 or 1, with
        None for an unknown element; None if nothing is known.
    """
    function = value_function(node.op_def) if depth <= _MAX_DEPTH else None
    return None if function is None else function(_NodeValues(node, output, shape_of, depth))


class _NodeValues:
    """A node whose value is inferred, with access to the values and shapes of its inputs."""

    __slots__ = ("_depth", "_node", "_shape_of", "attrs", "output")

    def __init__(self, node: Node, output: int, shape_of: ShapeOf, depth: int) -> None:
        self.attrs: Mapping[str, Any] = node.attrs
        self.output = output
        self._node = node
        self._shape_of = shape_of
        self._depth = depth

    @property
    def num_inputs(self) -> int:
        return len(self._node.in_edges)

    @property
    def gives_integers(self) -> bool:
        return self._node.output_types[0].is_integer

    def value(self, index: int) -> Partial:
        edge = self._node.in_edges[index]
        return partial_value(edge.src, edge.src_output, self._shape_of, self._depth + 1)

    def integers(self, index: int) -> Partial:
        value = self.value(index)
        if value is None or value.ndim > 1 or value.size > MAX_STATIC_ELEMENTS:
            return None
        if value.dtype == object:
            return value if self._node.input_types[index].is_integer else None
        return value.astype(object) if value.dtype.kind in "iu" else None

    def shape(self, index: int) -> TensorShape:
        edge = self._node.in_edges[index]
        return self._shape_of(edge.src, edge.src_output)
