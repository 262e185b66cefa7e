"""Values are cached for nodes that share op and attrs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import graphmill
from graphmill.graph.attrs_cache import AttrsCache
from graphmill.graph.graph import Graph

if TYPE_CHECKING:
    from graphmill.graph.node import Node


def node_of(op: str) -> Node:
    graph = graphmill.Graph()
    node: Node = graph.create_op(op, [graph.placeholder("float32", [])])
    return node


def test_nodes_that_share_op_and_attrs_share_a_value() -> None:
    node = node_of("Neg")
    copy = Graph().copy_nodes([node])[node]
    cache: AttrsCache[str] = AttrsCache()
    assert cache.find(node) is None
    assert cache.store(node, "value") == "value"
    assert cache.find(copy) == "value"


def test_other_ops_and_other_attrs_have_other_values() -> None:
    node = node_of("Neg")
    cache: AttrsCache[str] = AttrsCache()
    cache.store(node, "value")
    assert cache.find(node_of("Abs")) is None
    assert cache.find(node_of("Neg")) is None


def test_attrs_are_held_so_that_their_id_is_not_reused() -> None:
    cache: AttrsCache[int] = AttrsCache()
    for number in range(100):  # each graph is dropped before the next one is made
        node = node_of("Neg")
        assert cache.find(node) is None
        cache.store(node, number)
