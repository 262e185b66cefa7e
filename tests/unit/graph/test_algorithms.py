"""Orders, reachability and cycles (clause G1, S3)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import dtypes, errors
from graphmill.graph.algorithms import ancestors, topological_order
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.graph.graph import Graph
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.proto_builders import const_def, graph_def, node_def

if TYPE_CHECKING:
    from graphmill.graph.node import Node

OPS = OpRegistry()
NO_OP = OPS.get("NoOp")


@st.composite
def dags(draw: st.DrawFn, max_nodes: int = 12) -> Graph:
    """Draw random graphs of control edges: each node may wait for any earlier ones."""
    count = draw(st.integers(0, max_nodes))
    rank = draw(st.permutations(range(count)))
    graph = Graph()
    nodes = [graph.add_node(f"n{index}", NO_OP) for index in range(count)]
    for place in range(1, count):
        earlier = st.lists(st.integers(0, place - 1), max_size=3, unique=True)
        graph.add_control_edges([nodes[rank[i]] for i in draw(earlier)], nodes[rank[place]])
    return graph


@given(dags())
def test_topological_order_respects_all_edges(graph: Graph) -> None:
    """In topological order, the source of each edge precedes its destination (clause G1)."""
    order = topological_order(graph)
    place = {node: index for index, node in enumerate(order)}
    assert sorted(node.id for node in order) == [node.id for node in graph]
    assert all(place[src] < place[node] for node in graph for src in node.control_inputs)


@given(dags(), st.data())
def test_ancestors_are_the_roots_and_all_that_they_reach_backwards(
    graph: Graph, data: st.DataObject
) -> None:
    """The ancestors are the roots and all nodes that they depend on (clause G1)."""
    roots = [node for node in graph if data.draw(st.booleans())]
    found = ancestors(roots)
    closed = set(roots)
    while True:
        grown = closed | {src for node in closed for src in node.control_inputs}
        if grown == closed:
            break
        closed = grown
    assert found == closed


def test_ready_nodes_are_ordered_by_id() -> None:
    """Ready nodes are ordered by id, so the order is the same in each process (clause G1)."""
    graph = Graph()
    for name in "cab":
        graph.add_node(name, NO_OP)
    assert [node.name for node in topological_order(graph)] == ["c", "a", "b"]


def test_source_and_sink_are_no_ancestors() -> None:
    """`_SOURCE` and `_SINK` are not among the ancestors (clause G1)."""
    graph = Graph()
    node = graph.add_node("n", NO_OP)
    graph.connect_source_and_sink()
    assert ancestors([node]) == {node}


def test_cycle_error_lists_its_nodes() -> None:
    """The error about a cycle lists the nodes of the cycle (clause S3)."""
    graph = Graph()
    a, b, c, tail = (graph.add_node(name, NO_OP) for name in ("a", "b", "c", "tail"))
    for src, dst in ((a, b), (b, c), (c, a), (c, tail)):
        graph.add_control_edge(src, dst)
    with pytest.raises(errors.InvalidArgumentError, match="cycle that is not a loop") as e:
        topological_order(graph)
    cycle = e.value.message.rpartition(": ")[2].split(" -> ")
    assert sorted(cycle[:-1]) == ["a", "b", "c"]
    assert cycle[0] == cycle[-1] == e.value.node
    assert e.value.op_type == "NoOp"


@given(dags(max_nodes=8), st.data())
def test_one_edge_backwards_makes_a_cycle(graph: Graph, data: st.DataObject) -> None:
    """One backward edge in an acyclic graph is reported as a cycle (clause S3)."""
    pairs = [(src, node) for node in graph for src in ancestors([node])]
    if not pairs:
        return
    src, dst = data.draw(st.sampled_from(pairs))
    graph._connect_control(dst, src)
    with pytest.raises(errors.InvalidArgumentError):
        topological_order(graph)


def loop(closing_op: str) -> Graph:
    float32 = dtypes.float32
    return graph_from_graph_def(
        graph_def(
            const_def("start", 1.0),
            node_def("merge", "Merge", "start", "back", T=float32, N=2),
            node_def("back", closing_op, "merge", T=float32),
        ),
        OPS,
    )


def test_next_iteration_edge_is_not_a_cycle() -> None:
    """A loop through `NextIteration` and `Merge` is not a cycle (clause S3)."""
    assert [node.name for node in topological_order(loop("NextIteration"))] == [
        "start",
        "merge",
        "back",
    ]
    with pytest.raises(errors.InvalidArgumentError, match="merge"):
        loop("Identity")


def test_a_long_chain_needs_no_deep_stack() -> None:
    """Recursion depth does not depend on the size of the graph."""
    graph = Graph()
    last: Node | None = None
    for index in range(20 * sys.getrecursionlimit()):
        last = graph.add_node(f"n{index}", NO_OP, control_inputs=[last] if last else [])
    assert last is not None
    assert len(topological_order(graph)) == len(ancestors([last])) == len(graph)


def test_a_long_cycle_needs_no_deep_stack() -> None:
    """Recursion depth does not depend on the size of the graph."""
    graph = Graph()
    nodes = [graph.add_node(f"n{index}", NO_OP) for index in range(3000)]
    for src, dst in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        graph.add_control_edge(src, dst)
    with pytest.raises(errors.InvalidArgumentError):
        topological_order(graph)
