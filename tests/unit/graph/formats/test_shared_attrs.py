"""Nodes of a message with equal ops and attrs share their attrs, which are parsed once."""

from __future__ import annotations

import graphmill
from graphmill import dtypes
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.testing.proto_builders import const_def, graph_def, node_def


def imported(*nodes):
    return graph_from_graph_def(graph_def(*nodes), graphmill.default_host().ops)


def test_nodes_with_equal_attrs_share_them() -> None:
    graph = imported(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("a", "Neg", "x", T="float32"),
        node_def("b", "Neg", "a", T="float32"),
        node_def("c", "Abs", "b", T="float32"),
    )
    first, second, other = (graph.node(name).attrs for name in "abc")
    assert first is second
    assert first is not other


def test_nodes_with_other_attrs_have_their_own_attrs() -> None:
    graph = imported(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("a", "LeakyRelu", "x", alpha=0.0),
        node_def("b", "LeakyRelu", "x", alpha=-0.0),
    )
    assert str(graph.node("a").attrs["alpha"]) == "0.0"
    assert str(graph.node("b").attrs["alpha"]) == "-0.0"


def test_constants_have_their_own_attrs() -> None:
    graph = imported(const_def("a", 1.0), const_def("b", 1.0))
    assert graph.node("a").attrs is not graph.node("b").attrs


def test_change_of_one_node_leaves_the_others_as_they_are() -> None:
    graph = imported(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("a", "Neg", "x", T="float32"),
        node_def("b", "Neg", "x", T="float32"),
    )
    graph.set_attr(graph.node("a"), "T", dtypes.float64)
    assert graph.node("b").attrs["T"] is dtypes.float32
