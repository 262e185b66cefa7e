"""Random graphs are reproducible and have all kinds of nodes."""

from __future__ import annotations

from collections import Counter

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.generators.dataflow_graphs import random_graph

OPS = OpRegistry()


def test_a_seed_makes_one_graph():
    a, b = random_graph(3, OPS), random_graph(3, OPS)
    assert a.graph_def == b.graph_def
    assert list(a.feeds) == list(b.feeds)
    assert all(a.feeds[name].tolist() == b.feeds[name].tolist() for name in a.feeds)
    assert a.graph_def != random_graph(4, OPS).graph_def
    assert a.name == "random_graph(3, nodes=25)"


def test_graphs_have_every_feature():
    made = [random_graph(seed, OPS) for seed in range(60)]
    ops = Counter(node.op for graph in made for node in graph.graph_def.node)
    inputs = [text for graph in made for node in graph.graph_def.node for text in node.input]
    assert len(ops) > 45
    assert any(text.startswith("^") for text in inputs)
    assert any(text.endswith(":1") for text in inputs)
    assert max(Counter(inputs).values()) > 2
    assert all(graph.fetches for graph in made)
