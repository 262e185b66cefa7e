"""Errors of clusters name nodes of the user's graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import graphmill
from graphmill import errors
from graphmill.explain.compilation import find_compilation
from graphmill.explain.original_node import name_original_node

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph


def graphs_of_a_loop() -> tuple[list[Graph], Graph]:
    """Return the graphs of a loop that is run as a cluster, and the user's graph."""
    graph = graphmill.Graph()
    with graph.as_default():
        limit = graph.placeholder("int32", [], name="limit")
        start = [graph.constant(0), graph.constant(0.5)]
        _, total = graphmill.while_loop(
            lambda i, _: i < limit, lambda i, a: (i + 1, a * 2.0), start, name="loop"
        )
        graphmill.ops.array.identity(total, name="out")
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph, config=config) as session:
        assert session.run("out:0", {"limit:0": 3}) == 4
        inner: Any = session._impl
        (executors,) = inner.cached_executors()
        return [item.graph for item in executors.serving], inner.graph


def test_an_error_of_a_cluster_names_a_node_of_the_loop_in_it() -> None:
    graphs, full = graphs_of_a_loop()
    compilation = find_compilation(graphs[0])
    assert compilation is not None
    (name,) = (cluster.name for cluster in compilation.clusters if "loop" in cluster.name)
    error = errors.CancelledError(
        "the step was cancelled", node=name, op_type="Cluster", device="here"
    )
    name_original_node(error, graphs, full)
    assert error.node is not None
    assert error.node.startswith("loop/")
    assert error.op_type == full.node(error.node).op
    assert error.device == "here"


def test_errors_of_other_nodes_stay() -> None:
    graphs, full = graphs_of_a_loop()
    error = errors.CancelledError("the step was cancelled", node="function/body", op_type="Neg")
    name_original_node(error, graphs, full)
    assert (error.node, error.op_type) == ("function/body", "Neg")
