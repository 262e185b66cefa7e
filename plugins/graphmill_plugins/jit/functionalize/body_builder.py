"""Build the graph of a function from nodes of another graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.spi import Graph, Source, topological_order
from graphmill.spi.graphs import (
    FunctionBody,
    is_argument,
    is_argument_or_result,
    is_enter,
    is_loop_cond,
    is_switch,
)
from graphmill_plugins.jit.functionalize.liveness import pred_of
from graphmill_plugins.jit.functionalize.region import NotProvenError
from graphmill_plugins.jit.ir.invariant_nodes import does_nothing, is_variable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.dtypes import DType
    from graphmill.spi import Edge, Node, TensorAttr
    from graphmill.spi.graphs import OpRegistry
    from graphmill_plugins.jit.functionalize.liveness import Tensor

    Outside = Callable[[Tensor], Tensor]

MAX_CLONED_BYTES: Final = 4096
"""A constant of at most this size is cloned into its functions; larger ones are arguments."""

_COLOCATION: Final = "_class"


class Captures:
    """The outer tensors that the functions of one node read: their common arguments.

    Args:
        first: the tensors that are always arguments, in order.
    """

    def __init__(self, first: Iterable[Tensor] = ()) -> None:
        self.tensors: list[Tensor] = list(first)
        self._index: dict[Tensor, int] = {}
        self._fixed = len(self.tensors)

    def index(self, tensor: Tensor) -> int:
        """Return the index of the argument for a tensor; add one if there is none."""
        known = self._index.get(tensor)
        if known is None:
            known = self._index[tensor] = len(self.tensors)
            self.tensors.append(tensor)
        return known

    @property
    def captured(self) -> range:
        """The indices of the captured arguments, which follow the first ones."""
        return range(self._fixed, len(self.tensors))

    @property
    def types(self) -> tuple[DType, ...]:
        """The element types of all arguments."""
        return tuple(node.output_types[output].base_dtype for node, output in self.tensors)


class BodyBuilder:
    """Builds one function.

    Args:
        source: the graph whose nodes are copied.
        ops: definitions of ops.
        captures: its arguments, shared with the other functions of the same node.
        outside: maps a tensor that copied nodes read, but that is not copied, to the tensor of the
            source graph to capture.

    Attributes:
        graph: the function's graph.
        copies: the copy of each node.
        inside: the function's tensors by the tensors of the source graph that they represent.
    """

    def __init__(
        self, source: Graph, ops: OpRegistry, captures: Captures, outside: Outside
    ) -> None:
        self.graph = Graph()
        self.graph.library = source.library
        self.copies: dict[Node, Node] = {}
        self.inside: dict[Tensor, Tensor] = {}
        self._ops = ops
        self._captures = captures
        self._outside = outside
        self._args: dict[int, Node] = {}
        self._rets: list[Tensor] = []

    def copy(self, nodes: Iterable[Node]) -> None:
        """Copy nodes with the edges between them; outer tensors that they read are captured.

        Raises:
            NotProvenError: a node changes a reference that comes from outside.
        """
        nodes = [node for node in nodes if node not in self.copies]
        self.copies.update(self.graph.copy_nodes(nodes))
        for node in nodes:
            copy = self.copies[node]
            if _COLOCATION in copy.attrs:  # it may name nodes that the function lacks
                copy.attrs = {k: v for k, v in copy.attrs.items() if k != _COLOCATION}
            for position, edge in enumerate(node.in_edges):
                src, output = self._source(edge)
                self.graph.add_edge(src, output, copy, position)
        for node in nodes:
            before = [self.copies[e.src] for e in node.control_in_edges if e.src in self.copies]
            self.graph.add_control_edges(before, self.copies[node])

    def tensor(self, tensor: Tensor) -> Tensor:
        """Return the copy of a tensor of the source graph."""
        if tensor[0] in self.copies:
            return self.copies[tensor[0]], tensor[1]
        inner = self.inside.get(tensor)
        if inner is None:
            outer = self._outside(tensor)
            inner = self.inside.get(outer)
            if inner is None:
                inner = self.inside[outer] = self._clone(outer) or self.arg(
                    self._captures.index(outer), outer
                )
            self.inside[tensor] = inner
        return inner

    def arg(self, index: int, outer: Tensor) -> Tensor:
        """Return argument `index`, which represents a tensor of the source graph."""
        node = self._args.get(index)
        if node is None:
            dtype = outer[0].output_types[outer[1]].base_dtype
            node = self._args[index] = self.add(
                "_Arg", outer[0].name, (), {"T": dtype, "index": index}
            )
            node.assigned_device, node.device = outer[0].assigned_device, outer[0].device
        return node, 0

    def add(self, op: str, name: str, inputs: Iterable[Tensor], attrs: dict[str, Any]) -> Node:
        """Add a node to the function."""
        op_def = self._ops.get(op)
        return self.graph.add_node(
            self._unique_name(name), op_def, inputs, attrs=op_def.with_defaults(attrs)
        )

    def scalar(self, tensor: Tensor, name: str) -> Tensor:
        """Return a tensor of the function with a check that it is a scalar.

        Conditions of functional nodes may be tensors, which are true unless they are empty; those
        of v1 control flow must be scalars.
        """
        checks = {"T": tensor[0].output_types[tensor[1]].base_dtype, "shape": ()}
        return self.add("EnsureShape", name, [tensor], checks), 0

    def ret(self, tensor: Tensor) -> None:
        """Make a tensor of the function its next result."""
        self._rets.append(tensor)

    def finish(self, name: str, effects: Iterable[Node]) -> FunctionBody:
        """Return the function.

        Args:
            name: its name.
            effects: copied nodes that must run even if no result needs them.
        """
        ret_types = []
        for index, (node, output) in enumerate(self._rets):
            dtype = node.output_types[output].base_dtype
            ret_types.append(dtype)
            ret = self.add(
                "_Retval", f"result_{index}", [(node, output)], {"T": dtype, "index": index}
            )
            ret.assigned_device, ret.device = node.assigned_device, node.device
        control_rets = [self.copies[node] for node in effects]
        self._drop_forwarding_nodes()
        self.graph.edit_count = 0
        remaining = tuple(node for node in control_rets if self.graph.has_node(node.name))
        return FunctionBody(name, self.graph, self._captures.types, tuple(ret_types), remaining)

    def _source(self, edge: Edge) -> Tensor:
        source = self.tensor((edge.src, edge.src_output))
        if edge.dst.input_types[edge.dst_input].is_ref:
            dtype = source[0].output_types[source[1]]
            if not dtype.is_ref:
                raise NotProvenError(
                    f"{edge.dst.name} changes a reference that comes from {edge.src.name}"
                )
        return source

    def _clone(self, tensor: Tensor) -> Tensor | None:
        """Return a copy of a constant or variable; None if the value is passed as an argument."""
        origin = origin_of(tensor)
        if not is_cloned(origin):
            if tensor[0].output_types[tensor[1]].is_ref:
                raise NotProvenError(f"{tensor[0].name} is a reference from outside of the region")
            return None
        existing = self.inside.get((origin, 0))
        if existing is not None:
            return existing
        name = origin.name
        if self.graph.has_node(name):
            if _is_ref_variable(origin):  # the node's name is the variable's
                raise NotProvenError(
                    f"variable {name} is used both inside and outside of the region"
                )
            name = self._unique_name(name)
        node = self.graph.add_unconnected(name, origin.op_def, origin.attrs, origin.device)
        node.assigned_device = origin.assigned_device
        self.inside[origin, 0] = (node, 0)
        return node, 0

    def _unique_name(self, name: str) -> str:
        while self.graph.has_node(name):
            name += "_"
        return name

    def _drop_forwarding_nodes(self) -> None:
        """Remove control edges from forwarding nodes, then forwarding nodes without consumers.

        A function starts when all its arguments are available, so nothing has to wait for them.
        """
        forwarding: set[Node] = set()
        graph = self.graph
        for node in topological_order(graph):
            is_droppable = only_forwards(node) or is_argument(node) or _is_ref_variable(node)
            before = (edge.src for edge in (*node.in_edges, *node.control_in_edges))
            if is_droppable and all(src in forwarding for src in before):
                forwarding.add(node)
        for node in forwarding:
            for edge in [edge for edge in node.out_edges if edge.is_control]:
                graph.remove_control_edge(edge)
        for node in reversed(topological_order(graph)):
            if not node.out_edges and node in forwarding:
                graph.withdraw([node])


def origin_of(tensor: Tensor) -> Node:
    """Return the node that computes a value, past nodes that only forward it."""
    node, output = tensor
    while node.in_edges:
        if is_switch(node):
            if is_loop_cond(pred_of(node)[0]):
                return node
        elif not is_enter(node) and not node.op_def.traits.forwards:
            return node
        edge = node.in_edges[output if node.op_def.traits.forwards else 0]
        dtype = edge.src.output_types[edge.src_output]
        if dtype.is_ref and not node.output_types[0].is_ref:
            return node  # this node reads the variable
        node, output = edge.src, edge.src_output
    return node


def entered(node: Node) -> Tensor:
    """Return the input of a `Switch` or `Enter`; its own output if it reads a variable.

    The variable must be read at that node, not later, when its value is used.
    """
    edge = node.in_edges[0]
    is_read = edge.src.output_types[edge.src_output].is_ref and not node.output_types[0].is_ref
    return (node, 0) if is_read else (edge.src, edge.src_output)


def only_forwards(node: Node) -> bool:
    """Return whether a node only forwards its inputs, so nodes can wait for these instead."""
    traits = node.op_def.traits
    return traits.forwards or traits.source is Source.CONSTANT or does_nothing(node)


def has_effects(body: FunctionBody) -> bool:
    """Return whether a function has stateful nodes other than arguments and results."""
    return any(
        node.op_def.is_stateful and not is_argument_or_result(node) for node in body.graph.nodes
    )


def effects_among(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that run for their side effects."""
    return [node for node in nodes if node.op_def.is_stateful or not node.out_edges]


def _is_ref_variable(node: Node) -> bool:
    return is_variable(node) and node.output_types[0].is_ref


def is_cloned(node: Node) -> bool:
    """Return whether each function gets its own copy of a node."""
    if _is_ref_variable(node):
        return True
    if node.op_def.traits.source is not Source.CONSTANT:
        return False
    value: TensorAttr = node.attrs["value"]
    size = value.dtype.size if value.dtype.is_numpy_compatible else 16
    for dim in value.shape:
        size *= dim
    return size <= MAX_CLONED_BYTES


def common_device(nodes: Iterable[Node]) -> tuple[str, str]:
    """Return the most frequent pair of requested and assigned device of some nodes."""
    counts: dict[tuple[str, str], int] = {}
    for node in nodes:
        key = (node.device, node.assigned_device)
        counts[key] = counts.get(key, 0) + 1
    return max(counts, key=lambda key: counts[key]) if counts else ("", "")
