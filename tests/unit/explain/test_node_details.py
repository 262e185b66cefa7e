"""A node's attrs and connections, and graphs in the DOT language."""

from __future__ import annotations

import graphmill
from graphmill import ops
from graphmill.explain.node_details import dot_lines, node_details


def graph_with_scopes() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        with graph.name_scope("outer"):
            a = ops.math.neg(x, name="a")
            with graph.name_scope("inner"), graph.control_dependencies([x.op]):
                ops.math.exp(a, name="b")
    return graph


def test_details_name_attrs_inputs_and_consumers() -> None:
    graph = graph_with_scopes()
    a, b = (node_details(graph.node(name)) for name in ("outer/a", "outer/inner/b"))
    assert a.consumers == ("outer/inner/b",)
    assert b.inputs == ("outer/a", "^x")
    assert b.outputs == ("float32",)
    assert "float32" in b.attrs["T"]
    assert a.as_dict()["node"] == "outer/a"


def test_dot_has_a_cluster_for_each_scope_and_an_edge_for_each_input() -> None:
    lines = [line.strip() for line in dot_lines(graph_with_scopes(), [])]
    assert lines[0] == "digraph graphmill {"
    assert lines[-1] == "}"
    assert 'subgraph "cluster_outer" { label="outer";' in lines
    assert 'subgraph "cluster_outer/inner" { label="inner";' in lines
    assert '"outer/a" -> "outer/inner/b";' in lines
    assert '"x" -> "outer/inner/b" [style=dashed];' in lines
    assert sum(line.count("{") for line in lines) == sum(line.count("}") for line in lines)


def test_dot_quotes_names() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.placeholder("float32", name="x")
    (line,) = [line for line in dot_lines(graph, []) if "Placeholder" in line]
    assert '"x" [label="x\\nPlaceholder"]' in line
