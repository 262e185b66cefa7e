"""Collections of a graph."""

from __future__ import annotations

import graphmill


def test_collections_are_extended_listed_and_cleared() -> None:
    graph = graphmill.Graph()
    graph.add_to_collections(["a", "b", "a"], 1)
    graph.add_to_collections("b", 2)
    graph.get_collection_ref("c").append(3)
    assert [graph.get_collection(key) for key in "abc"] == [[1], [1, 2], [3]]
    assert graph.get_all_collection_keys() == ["a", "b", "c"]
    graph.clear_collection("b")
    assert graph.get_collection("b") == []
    assert graph.get_all_collection_keys() == ["a", "c"]


def test_variables_are_collections() -> None:
    with graphmill.Graph().as_default() as graph:
        variable = graphmill.Variable(1.0)
        fixed = graphmill.Variable(1.0, trainable=False)
    assert graph.get_collection("trainable_variables") == [variable]
    assert graph.get_collection_ref("variables") is graph.variables
    assert graph.get_all_collection_keys() == ["variables", "trainable_variables"]
    graph.clear_collection("trainable_variables")
    assert graph.get_collection_ref("trainable_variables") == []
    assert graph.get_collection("variables") == [variable, fixed]
    graph.clear_collection("variables")
    assert graph.variables == []
