"""`ForwardOp`: the op argument of gradient functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.errors import UnimplementedError
from graphmill.graph.node_roles import is_constant_enter
from graphmill.graph.tensor import Tensor
from graphmill.ops import array, state
from graphmill.ops.definition.op_traits import Source

if TYPE_CHECKING:
    from graphmill.backprop.backward_pass import BackwardPass
    from graphmill.backprop.control_flow_analysis import Branch
    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node


class ForwardOp:
    """A node to differentiate.

    Attributes:
        node: the node.
        inputs: its input tensors, in order, with lists flattened.
        outputs: its output tensors.
        source: name of this call of `gradients`; the `source` of gradient TensorArrays.
    """

    __slots__ = ("_backward", "inputs", "node", "outputs", "source")

    def __init__(self, node: Node, backward: BackwardPass) -> None:
        self.node = node
        self.inputs = [Tensor(src, index) for src, index in node.sources]
        self.outputs = [Tensor(node, index) for index in range(node.num_outputs)]
        self.source = backward.name
        self._backward = backward

    @property
    def type(self) -> str:
        """Name of the op."""
        return self.node.op

    @property
    def name(self) -> str:
        """Name of the node."""
        return self.node.name

    @property
    def graph(self) -> Graph:
        """The graph, to which the gradients are added."""
        return self._backward.graph

    def get_attr(self, name: str) -> Any:
        """Return an attr in canonical form.

        Raises:
            InvalidArgumentError: the op has no attr of that name.
        """
        return self.node.get_attr(name)

    def shape(self, tensor: Tensor) -> Tensor:
        """Return the shape of an input or output.

        Within a loop, the forward pass computes the shape, so that only the shape is saved.
        """
        return self._backward.shape(tensor)

    def zeros(self, tensor: Tensor, dtype: Any = None) -> Tensor:
        """Return zeros of the shape of an input or output; `dtype` defaults to its type."""
        return self._backward.zeros(tensor, dtype)

    def branches(self, tensor: Tensor) -> tuple[Branch, ...]:
        """Return the branches of conditionals that contain a tensor, outermost first."""
        return self._backward.structure.branches((tensor.op, tensor.value_index))

    @property
    def walk(self) -> BackwardPass:
        """The old name of `backward_pass`."""
        from graphmill.deprecations import warn_renamed

        warn_renamed("ForwardOp.walk", "backward_pass")
        return self._backward

    @property
    def backward_pass(self) -> BackwardPass:
        """The backward pass that this belongs to."""
        return self._backward

    def __repr__(self) -> str:
        return f"<ForwardOp {self.name!r} op={self.type}>"


class ShapesOfForward:
    """Shapes and zeros of tensors of the forward pass, for one call of `gradients`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._in_loops: dict[Tensor, Tensor] = {}

    def shape(self, tensor: Tensor) -> Tensor:
        """Return a tensor's shape; for a resource handle, the shape of the variable."""
        tensor = without_enter(tensor)
        flow = self.graph.control_flow
        home = flow.home_of(tensor.op)
        current = flow.current
        if home is None or home.loop is None or (current is not None and current.is_within(home)):
            return _shape(tensor)
        if tensor not in self._in_loops:
            with self.graph.control_dependencies(None), flow.entered(home):
                self._in_loops[tensor] = _shape(tensor)
        return self._in_loops[tensor]

    def zeros(self, tensor: Tensor, dtype: Any = None) -> Tensor:
        """Return zeros of a tensor's shape; `dtype` defaults to its type.

        For the handle of a variable, they have the shape and type of the variable.
        """
        element_type = _element_type(tensor) if dtype is None else dtype
        if element_type.name == "variant":
            return array.zeros_like(tensor)
        if not is_trainable(element_type) or element_type.name == "resource":
            raise UnimplementedError(
                f"{tensor.name!r} is {element_type.name}: there is no zero gradient of this type"
            )
        return array.fill(self.shape(tensor), self.graph.constant(0, element_type))


def without_enter(tensor: Tensor) -> Tensor:
    """Return the tensor outside all loops that a loop invariant copies; other tensors unchanged."""
    while is_constant_enter(tensor.op):
        tensor = Tensor(*tensor.op.sources[0])
    return tensor


def _element_type(tensor: Tensor) -> DType:
    """Return the type of a tensor, or that of the variable whose handle it is."""
    node = without_enter(tensor).op
    if node.op_def.traits.source is Source.VARIABLE:
        dtype: DType = node.attrs["dtype"]
        return dtype
    return tensor.dtype.base_dtype


def _shape(tensor: Tensor) -> Tensor:
    if tensor.dtype.base_dtype.name == "resource":
        return state.variable_shape(tensor)
    return array.shape(tensor)
