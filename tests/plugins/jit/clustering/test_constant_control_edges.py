"""Control inputs of constants move to their consumers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import graphmill
from graphmill import default_host
from graphmill_plugins.jit.clustering.constant_control_edges import move_constant_control_edges

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph as RuntimeGraph


def graph_with(read_by_merge: bool = False) -> RuntimeGraph:
    """Return x -> first; constant ^first; reader(x, constant)."""
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        first = graphmill.ops.math.neg(x, name="first")
        with graph.control_dependencies([first]):
            constant = graphmill.ops.array.const(value=2.0, dtype="float32", name="constant")
        if read_by_merge:
            graphmill.ops.control_flow.merge([x, constant], name="reader")
        else:
            graphmill.ops.math.mul(x, constant, name="reader")
    from graphmill.graph.formats.import_export import graph_from_graph_def

    return graph_from_graph_def(graph.as_graph_def(), default_host().ops)


def test_readers_wait_instead() -> None:
    graph = graph_with()
    move_constant_control_edges(graph, set())
    assert not [e for e in graph.node("constant").control_in_edges if e.src is not graph.source]
    assert "first" in [edge.src.name for edge in graph.node("reader").control_in_edges]


def test_constants_of_control_flow_and_loops_stay() -> None:
    graph = graph_with(read_by_merge=True)
    move_constant_control_edges(graph, set())
    assert "first" in [edge.src.name for edge in graph.node("constant").control_in_edges]
    graph = graph_with()
    move_constant_control_edges(graph, {graph.node("constant")})
    assert "first" in [edge.src.name for edge in graph.node("constant").control_in_edges]
