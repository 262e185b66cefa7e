"""`input_map`: imported nodes read tensors of the graph."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, ops, train


def meta_graph() -> Any:
    """Return a MetaGraph that computes `y = rate * x`."""
    graph = graphmill.Graph()
    with graph.as_default():
        rate = graph.placeholder("float32", [], name="rate")
        ops.math.mul(rate, graph.placeholder("float32", [], name="x"), name="y")
    return train.export_meta_graph(graph=graph)


@pytest.mark.parametrize("key", ["rate", "rate:0"])
@pytest.mark.parametrize("scope", [None, "a"])
def test_imported_nodes_read_a_tensor_of_the_graph(key: str, scope: str | None) -> None:
    message = meta_graph()
    before = message.graph_def.SerializeToString(deterministic=True)
    graph = graphmill.Graph()
    with graph.as_default():
        half = ops.math.mul(graph.constant(0.25), graph.constant(2.0))
    train.import_meta_graph(message, import_scope=scope, graph=graph, input_map={key: half})
    prefix = f"{scope}/" if scope else ""
    with graphmill.Session(graph=graph) as session:
        assert session.run(f"{prefix}y:0", {f"{prefix}x:0": 6.0}) == 3.0
    assert graph.get_operation_by_name(f"{prefix}rate").op == "Placeholder"
    assert message.graph_def.SerializeToString(deterministic=True) == before


def test_values_become_constants() -> None:
    graph = graphmill.Graph()
    train.import_meta_graph(meta_graph(), graph=graph, input_map={"rate:0": 2.0, "x:0": 4.0})
    with graphmill.Session(graph=graph) as session:
        assert session.run("y:0") == 8.0


def test_name_that_no_node_reads_is_an_error_with_a_suggestion() -> None:
    graph = graphmill.Graph()
    with pytest.raises(
        errors.InvalidArgumentError, match=r"names 'rates:0', but no node .*'rate:0'"
    ):
        train.import_meta_graph(meta_graph(), graph=graph, input_map={"rates:0": 2.0})


def test_tensor_of_another_graph_is_an_error() -> None:
    other = graphmill.Graph().constant(1.0)
    with pytest.raises(errors.InvalidArgumentError, match="'rate:0' in input_map"):
        train.import_meta_graph(meta_graph(), graph=graphmill.Graph(), input_map={"rate:0": other})


def test_tensor_of_another_type_is_an_error() -> None:
    graph = graphmill.Graph()
    with pytest.raises(errors.InvalidArgumentError, match="node y"):
        train.import_meta_graph(meta_graph(), graph=graph, input_map={"rate:0": graph.constant(1)})
