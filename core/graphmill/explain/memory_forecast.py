"""`forecast_memory`: forecast the memory of a step from static shapes and order alone.

Sizes come from shape inference with the shapes of the feeds; an output lives from its node to its
last consumer, in the order of data flow. Steps that are compiled or run nodes at once may hold more
or less, and buffers inside of kernels are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.errors import OpError
from graphmill.explain.memory import Lifetime, Peak, peaks
from graphmill.explain.plain import as_plain
from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.functions.called_shapes import Arg
from graphmill.graph.node_roles import forwarded, is_argument, is_constant, is_result
from graphmill.graph.shapes.shape_refiner import shapes_with_calls
from graphmill.ops.inference.tensor_shape import TensorShape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.shapes.shape_refiner import GraphShapes
    from graphmill.ops.definition.op_registry import OpRegistry


@dataclass(frozen=True, slots=True)
class MemoryForecast:
    """The memory that a step is expected to hold.

    Attributes:
        peaks: for each device the largest sum of bytes that are alive together, with the holders;
            `Peak.time` is a position in `order`.
        order: the nodes in the order of data flow.
        unknown: the nodes with an output whose size cannot be inferred; they count as 0 bytes.
        num_constant_bytes: the size of the constants, which the session holds between steps; they
            are not in `peaks`.
    """

    peaks: dict[str, Peak]
    order: tuple[str, ...]
    unknown: tuple[str, ...]
    num_constant_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        plain: dict[str, Any] = as_plain(self)
        return plain


def forecast_memory(
    graph: Graph,
    ops: OpRegistry,
    feed_shapes: Sequence[Sequence[int] | None] = (),
    devices: Mapping[str, str] | None = None,
) -> MemoryForecast:
    """Return the memory that a step of a graph is expected to hold.

    Args:
        graph: the nodes of the step, as `Session.step_graph` returns them.
        ops: the ops of the host, for the bodies of functions.
        feed_shapes: the shape of each feed, in the order of the feeds; None if it is unknown.
        devices: the device of each node, by name; by default all are on the device "".
    """
    order = _in_order(graph)
    positions = {node: position for position, node in enumerate(order)}
    shapes = _shapes(graph, ops, feed_shapes)
    unknown: list[str] = []
    lifetimes: list[Lifetime] = []
    constants = 0
    last_uses = _last_uses(order, positions)
    for position, node in enumerate(order):
        size = _num_bytes(node, shapes)
        if size is None:
            unknown.append(node.name)
        elif is_constant(node):
            constants += size
        elif size:
            device = (devices or {}).get(node.name, "")
            end = max(last_uses[node], position)
            lifetimes.append(Lifetime(node.name, device, size, position, end))
    names = tuple(node.name for node in order)
    return MemoryForecast(peaks(lifetimes), names, tuple(unknown), constants)


def _in_order(graph: Graph) -> list[Node]:
    """Return the nodes, inputs before consumers; back edges of loops are ignored."""
    waiting = {
        node: sum(
            edge.src is not graph.source and not is_back_edge(edge)
            for edge in (*node.in_edges, *node.control_in_edges)
        )
        for node in graph.nodes
    }
    order = [node for node, count in waiting.items() if not count]
    for node in order:
        for edge in node.out_edges:
            if edge.dst in waiting and not is_back_edge(edge):
                waiting[edge.dst] -= 1
                if not waiting[edge.dst]:
                    order.append(edge.dst)
    return order


def _shapes(
    graph: Graph, ops: OpRegistry, feed_shapes: Sequence[Sequence[int] | None]
) -> GraphShapes:
    shapes = shapes_with_calls(graph.library, ops)
    arguments = {}
    for node in graph.nodes:
        index = node.attrs["index"] if is_argument(node) else len(feed_shapes)
        if index < len(feed_shapes):
            arguments[node] = Arg(TensorShape(feed_shapes[index]))
    return shapes.with_arguments(arguments)


def _num_bytes(node: Node, shapes: GraphShapes) -> int | None:
    """Return the bytes of a node's own outputs; None if a size is unknown."""
    if is_result(node):
        return 0  # it holds what its input holds
    try:
        output_shapes = shapes.of(node)
    except OpError:
        return None
    total = 0
    for output, (shape, dtype) in enumerate(zip(output_shapes, node.output_types, strict=True)):
        if forwarded(node, output) is not None or not dtype.is_numpy_compatible:
            continue  # the memory is that of its input, or of a resource
        count = shape.num_elements()
        if count is None:
            return None
        total += count * dtype.as_numpy_dtype.itemsize
    return total


def _last_uses(order: Sequence[Node], positions: Mapping[Node, int]) -> dict[Node, int]:
    """Return the position of the last node that needs the memory of each node's outputs."""
    last: dict[Node, int] = dict.fromkeys(order, 0)
    end = len(order)
    for node in reversed(order):
        for edge in node.out_edges:
            if edge.is_control or edge.dst not in positions:
                continue
            use = end if is_result(edge.dst) else positions[edge.dst]
            if edge.dst is not node and _passes_on(edge.dst):
                use = max(use, last[edge.dst])
            last[node] = max(last[node], use)
    return last


def _passes_on(node: Node) -> bool:
    return any(forwarded(node, output) is not None for output in range(node.num_outputs))
