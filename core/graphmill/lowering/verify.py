"""Verify that a graph is consistent; with `GRAPHMILL_VALIDATE=1` around each pass (clause P4).

`docs/howto/pass.md` says what a pass must preserve. Semantics: the checks of
`tensorflow/core/graph/validate.cc` and `graph_constructor.cc`, for the graph in memory.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from graphmill.errors import InternalError, OpError
from graphmill.graph.algorithms import topological_order
from graphmill.graph.control_flow.frames import analyse_frames
from graphmill.graph.graph import check_inputs, output_type
from graphmill.graph.node import CONTROL_SLOT
from graphmill.graph.node_roles import is_argument_or_result, is_transfer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Edge, Node

_END_ATTRS = ("index", "T", "tensor_type", "tensor_name", "send_device", "recv_device")


def verify_graph(graph: Graph) -> None:
    """Check a graph: names, edges, element types, cycles and frames.

    Raises:
        InternalError: the graph is inconsistent; the message lists all faults of nodes and edges.
    """
    faults = [fault for node in graph.nodes for fault in _faults_of(graph, node)]
    if not faults:
        try:
            topological_order(graph)
            analyse_frames(graph)
        except OpError as error:
            faults = [str(error)]
    if faults:
        raise InternalError("the graph is inconsistent:\n  " + "\n  ".join(faults))


class PassVerifier:
    """Check a graph before and after one pass.

    Args:
        graph: the graph that the pass will change.
        name: the pass, its plugin and its phase, for messages.

    Raises:
        InternalError: the graph is inconsistent before the pass.
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self._graph = graph
        self._name = name
        self._verify("before")
        self._ends = _ends(graph)
        self._is_placed = all(node.assigned_device for node in graph.nodes)

    def check(self) -> None:
        """Check the graph after the pass.

        Raises:
            InternalError: the graph is inconsistent, a feed, fetch or transfer was removed or
                added, or a node has no device although all had one; the message names the pass.
        """
        self._verify("after")
        ends = _ends(self._graph)
        for what, changed in (("lost", self._ends - ends), ("added", ends - self._ends)):
            if changed:
                raise self._error("after", f"it {what} {', '.join(map(_text, changed))}")
        unplaced = [node.name for node in self._graph.nodes if not node.assigned_device]
        if self._is_placed and unplaced:
            raise self._error("after", f"nodes without a device: {', '.join(unplaced)}")

    def _verify(self, when: str) -> None:
        try:
            verify_graph(self._graph)
        except InternalError as error:
            raise self._error(when, error.message) from error

    def _error(self, when: str, what: str) -> InternalError:
        return InternalError(f"{when} the graph pass {self._name}: {what}")


def _ends(graph: Graph) -> Counter[tuple[Any, ...]]:
    """Count the feeds, fetches and transfers of a graph."""
    return Counter(
        (node.op, *(node.attrs.get(name) for name in _END_ATTRS))
        for node in graph.nodes
        if is_argument_or_result(node) or is_transfer(node)
    )


def _text(end: tuple[Any, ...]) -> str:
    op, index, *_, name, _, _ = end
    return f"{op} {index if index is not None else name}"


def _faults_of(graph: Graph, node: Node) -> Iterator[str]:
    if node.graph is not graph or not graph.has_node(node.name) or graph.node(node.name) != node:
        yield f"{node.name!r} is not the graph's node of that name"
        return
    for position, edge in enumerate(node.in_edges):
        yield from _edge_faults(graph, edge, node, position)
    for edge in node.control_in_edges:
        yield from _edge_faults(graph, edge, node, CONTROL_SLOT)
    for edge in node.out_edges:
        listed = edge.dst.control_in_edges if edge.is_control else edge.dst.in_edges
        if edge.src is not node or edge not in listed:
            yield f"{node.name!r} lists the edge {edge!r}, but the edge's destination does not"
    try:
        if node.op_def.input_types(node.attrs) != node.input_types:
            yield f"{node.name!r} (op {node.op}) has input types that differ from its attrs"
        if node.op_def.output_types(node.attrs) != node.output_types:
            yield f"{node.name!r} (op {node.op}) has output types that differ from its attrs"
        check_inputs(node, [output_type(edge.src, edge.src_output) for edge in node.in_edges])
    except OpError as error:
        yield f"{node.name!r} (op {node.op}): {error.message}"


def _edge_faults(graph: Graph, edge: Edge, node: Node, position: int) -> Iterator[str]:
    if edge.dst is not node or edge.dst_input != position:
        yield f"input {position} of {node.name!r} is {edge!r}"
    if edge.src.graph is not graph or not graph.has_node(edge.src.name):
        yield f"{node.name!r} reads {edge.src.name!r}, which is not in the graph"
    elif edge not in edge.src.out_edges:
        yield f"{edge.src.name!r} does not list the edge {edge!r}"
