"""Build the gradient of a library function as another function of the library.

The gradient function takes the function's arguments and the gradients of its trainable results,
and returns the gradients of the requested arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.backprop.control_flow_analysis import is_trainable
from graphmill.backprop.indexed_slices import dense
from graphmill.backprop.repeatable import check_repeatable
from graphmill.graph.builder import Graph
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_def import function_def
from graphmill.graph.node_roles import is_argument, is_result, is_switch
from graphmill.graph.tensor import Tensor
from graphmill.ops import array, state

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.backprop.backward_pass import BackwardPass
    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.dtypes import DType
    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill.ops.attrs.attr_types import FuncAttr


@dataclass(frozen=True, slots=True)
class FunctionGradient:
    """Gradient functions with a common signature: of one function, or of all branches.

    Attributes:
        names: their names in the library, one for each function.
        indices: indices of the arguments whose gradients they return.
        types: element types of these gradients.
        count: number of arguments.
    """

    names: list[str]
    indices: list[int]
    types: list[DType]
    count: int

    @classmethod
    def build(
        cls, op: ForwardOp, functions: Sequence[FuncAttr], required: Sequence[bool]
    ) -> FunctionGradient:
        """Add the gradients of functions to the library.

        Args:
            op: the node that calls them.
            functions: the functions, all with the same arguments and results.
            required: for each argument, whether its gradient is requested.
        """
        bodies = [_Differentiated(op.backward_pass, function, required) for function in functions]
        result_types: dict[int, DType] = {}
        for body in bodies:
            for index, value in body.found.items():
                result_types.setdefault(index, value.dtype.base_dtype)
        indices = sorted(result_types)
        types = [result_types[index] for index in indices]
        names = [body.finish(result_types) for body in bodies]
        return cls(names, indices, types, len(required))

    def spread(self, results: Sequence[Tensor]) -> list[Any]:
        """Return the results of a call as a list with an entry for each argument."""
        spread: list[Any] = [None] * self.count
        for index, value in zip(self.indices, results, strict=True):
            spread[index] = value
        return spread


class _Differentiated:
    """The body of a function with its gradients added."""

    def __init__(
        self, backward: BackwardPass, function: FuncAttr, required: Sequence[bool]
    ) -> None:
        from graphmill.backprop.backward_pass import BackwardPass as NewPass  # imports this module

        self._outer, self._host = backward.graph, backward.host
        self._name = function.name
        body = instantiate_function(
            function.name, function.attrs, backward.graph.library, backward.host.ops
        )
        self._graph = Graph(backward.graph.ops)
        self._graph.library = backward.graph.library
        copies = _copied(self._graph, body)
        self.args = _by_index(filter(is_argument, copies))
        rets = _by_index(filter(is_result, copies))
        with self._graph.as_default(), self._graph.control_flow.unchecked():
            self._grads: list[Node] = []
            ends: dict[tuple[Node, int], list[Any]] = {}
            for ret in rets:
                source = ret.sources[0]
                dtype = ret.input_types[0].base_dtype
                if is_trainable(dtype) and dtype.name != "resource":
                    grad = self._graph.placeholder(dtype, name="grad")
                    self._grads.append(grad.op)
                    ends.setdefault(source, []).append(grad)
            inner = NewPass(self._graph, backward.host, backward.name, (), backward.options)
            targets = [
                (arg, 0) for arg, is_wanted in zip(self.args, required, strict=True) if is_wanted
            ]
            results = iter(inner.propagate(ends, targets))
            self.found: dict[int, Tensor] = {}
            for index, is_wanted in enumerate(required):
                value = next(results) if is_wanted else None
                if value is not None:
                    self.found[index] = dense(value)

    def finish(self, result_types: dict[int, DType]) -> str:
        """Add the function to the library; use zeros where only other branches have gradients."""
        results = []
        with self._graph.as_default():
            for index in sorted(result_types):
                value = self.found.get(index)
                if value is None:
                    value = _zeros(Tensor(self.args[index]), result_types[index])
                results.append((value.op, value.value_index))
        name = f"{self._name}_gradient_{len(self._outer.library)}"
        definition = function_def(name, self._graph, [*self.args, *self._grads], results)
        check_repeatable(definition, self._name, self._graph, self._host)
        self._outer.library.add(definition)
        return name


def _zeros(tensor: Tensor, dtype: DType) -> Tensor:
    if dtype.name == "variant":
        return array.zeros_like(tensor)
    is_handle = tensor.dtype.base_dtype.name == "resource"
    shape = state.variable_shape(tensor) if is_handle else array.shape(tensor)
    return array.fill(shape, tensor.graph.constant(0, dtype))


def _copied(graph: Graph, body: FunctionBody) -> list[Node]:
    """Copy the nodes of a body without control edges that only order effects."""
    copies = graph.copy_nodes(body.graph.nodes)
    has_control_flow = any(map(is_switch, copies))
    for node, copy in copies.items():
        for edge in node.in_edges:
            graph.add_edge(copies[edge.src], edge.src_output, copy, edge.dst_input)
        for edge in node.control_in_edges:
            # In a branch or loop, a control edge also determines whether a node runs.
            if edge.src in copies and (has_control_flow or node.op_def.is_stateful):
                graph.add_control_edge(copies[edge.src], copy)
    return list(copies.values())


def _by_index(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.attrs["index"])
