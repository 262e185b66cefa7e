"""Compute sizes in a graph: elements of variables and constants, static shapes of outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from graphmill.dtypes import as_dtype
from graphmill.errors import OpError
from graphmill.ops.definition.op_traits import Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.formats.model_file import LoadedGraph
    from graphmill.graph.tensor import Tensor
    from graphmill.models.summary import Port
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.tensor_shape_pb2 import TensorShapeProto
    from graphmill.typing import Shape


@dataclass(frozen=True, slots=True)
class Size:
    """The elements and bytes that some nodes hold.

    Attributes:
        nodes: how many nodes.
        elements: the number of elements of all; those of unknown size count as none.
        bytes: their size in memory; strings count as none.
    """

    nodes: int = 0
    elements: int = 0
    bytes: int = 0

    def __str__(self) -> str:
        return f"{self.nodes:,} with {self.elements:,} elements, {self.bytes:,} bytes"


def variables_size(
    graph_def: GraphDef, ops: OpRegistry, tensors: Iterable[str] | None = None
) -> Size:
    """Return the size of the variables of a graph, by their declared shapes.

    Args:
        graph_def: the graph.
        ops: the ops of its nodes.
        tensors: only variables that these depend on; None for all.
    """
    names = None if tensors is None else _needed_nodes(graph_def, tensors)
    variables = {
        node.attr["shared_name"].s or node.name.encode(): node
        for node in graph_def.node
        if (names is None or node.name in names) and source_of(node.op, ops) is Source.VARIABLE
    }
    return _size((node.attr["dtype"].type, node.attr["shape"].shape) for node in variables.values())


def constants_size(graph_def: GraphDef, ops: OpRegistry) -> Size:
    """Return the size of the constants of a graph and its functions."""
    bodies = [function.node_def for function in graph_def.library.function]
    return _size(
        (node.attr["value"].tensor.dtype, node.attr["value"].tensor.tensor_shape)
        for nodes in (graph_def.node, *bodies)
        for node in nodes
        if source_of(node.op, ops) is Source.CONSTANT
    )


def _needed_nodes(graph_def: GraphDef, tensors: Iterable[str]) -> set[str]:
    """Return the nodes that tensors depend on."""
    inputs = {node.name: node.input for node in graph_def.node}
    needed: set[str] = set()
    found = [_node_of(tensor) for tensor in tensors]
    while found:
        name = found.pop()
        if name not in needed:
            needed.add(name)
            found += map(_node_of, inputs.get(name, ()))
    return needed


def _node_of(tensor: str) -> str:
    return tensor.removeprefix("^").partition(":")[0]


def source_of(op: str | None, ops: OpRegistry) -> Source:
    """Return the source of the value of an op; `Source.NONE` if the op is unknown."""
    op_def = ops.find(op) if op else None
    return Source.NONE if op_def is None else op_def.traits.source


def is_placeholder(op: str | None, ops: OpRegistry) -> bool:
    """Return whether the nodes of an op are inputs of a graph."""
    return source_of(op, ops) in (Source.PLACEHOLDER, Source.PLACEHOLDER_WITH_DEFAULT)


def _shape(tensor: Tensor) -> Shape:
    if tensor.shape.rank is None:
        return None
    return tuple(-1 if size is None else size for size in tensor.shape.as_list())


def _size(tensors: Iterable[tuple[int, TensorShapeProto]]) -> Size:
    nodes = elements = size = 0
    for enum, shape in tensors:
        dims = [dim.size for dim in shape.dim]
        count = 0 if shape.unknown_rank or min(dims, default=0) < 0 else prod(dims)
        nodes += 1
        elements += count
        if enum and as_dtype(enum).name not in ("string", "variant", "resource"):
            size += count * as_dtype(enum).size
    return Size(nodes, elements, size)


def static_outputs(
    outputs: Iterable[Port], loaded: LoadedGraph, ops: OpRegistry
) -> tuple[Port, ...]:
    """Return the outputs of a graph that can be fetched, with their static shapes.

    They are returned unchanged if the graph cannot be built, as with an op that is not registered.
    """
    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.frames import loop_of_output
    from graphmill.graph.formats.import_export import extend_graph

    graph = Graph(ops)
    try:
        extend_graph(graph, loaded.graph_def, ops, loaded.tensors)
        return tuple(
            replace(port, shape=_shape(graph.get_tensor_by_name(port.tensor)))
            for port in outputs
            if loop_of_output(graph.node(port.tensor.partition(":")[0])) is None
        )
    except OpError:
        return tuple(outputs)
