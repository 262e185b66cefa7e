"""A topological order that stays valid while nodes replace others."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.plugins.jit.small_graphs import graph

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.jit.functionalize import node_order
from graphmill_plugins.jit.functionalize.node_order import NodeOrder

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node


def is_valid(order: NodeOrder, made: Graph) -> bool:
    positions = order.positions()
    return all(
        positions[edge.src] < positions[node] for node in made.nodes for edge in node.in_edges
    )


def reached(start: Node) -> set[Node]:
    found, stack = {start}, [start]
    while stack:
        fresh = {edge.dst for edge in stack.pop().out_edges} - found
        found |= fresh
        stack += fresh
    return found


def replace(made: Graph, replaced: list[Node], name: str) -> Node:
    """Replace nodes by one that sums what they read."""
    edges = [edge for node in replaced for edge in node.in_edges]
    sources = list(dict.fromkeys((edge.src, edge.src_output) for edge in edges))
    dtype = made.node("x").output_types[0]
    op_def = made.node("sum").op_def
    node = made.add_node(name, op_def, sources, attrs={"N": len(sources), "T": dtype})
    for old in replaced:
        made.redirect(old, 0, node, 0)
    made.withdraw(replaced)
    return node


@pytest.mark.parametrize("seed", range(20))
def test_order_stays_valid_when_nodes_are_replaced(seed: int) -> None:
    rng = random.Random(seed)
    lines, names = ["sum = AddN([x])"], ["x"]
    for index in range(40):
        read = ", ".join(rng.choices(names[-6:], k=rng.randint(1, 3)))
        lines.append(f"n{index} = AddN([{read}])")
        names.append(f"n{index}")
    made, left = graph(*lines, x="float32"), names[1:]
    order = NodeOrder(made)
    assert is_valid(order, made)
    for count in range(12):
        first, second = (made.node(name) for name in rng.sample(left, 2))
        if first in reached(second) or second in reached(first):
            continue  # one node in place of both would close a cycle
        left = [name for name in left if name not in (first.name, second.name)]
        order.add([replace(made, [first, second], f"new{count}")])
        left.append(f"new{count}")
        assert is_valid(order, made)


def test_order_is_computed_again_if_a_node_has_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "a = Neg(x)", "b = Neg(a)", "c = Neg(x)", "d = Neg(c)"
    made = graph(*lines, x="int32")
    computed: list[Graph] = []
    original = node_order.topological_order
    monkeypatch.setattr(
        node_order, "topological_order", lambda one: computed.append(one) or original(one)
    )
    order = NodeOrder(made)
    assert is_valid(order, made)
    positions = order.positions()
    early, late = sorted((made.node("b"), made.node("d")), key=lambda node: positions[node])
    made.add_control_edge(late, made.add_node("e", early.op_def, [(early, 0)], attrs=early.attrs))
    order.add([made.node("e")])
    assert (is_valid(order, made), len(computed)) == (True, 1)
    made.withdraw([made.node("e")])
    node = made.add_node("f", early.op_def, [(late, 0)], attrs=early.attrs)
    made.add_control_edge(node, early)
    order.add([node])
    assert (is_valid(order, made), len(computed)) == (True, 2)


def test_cycle_is_refused() -> None:
    made = graph("a = Neg(x)", "b = Neg(a)", x="float32")
    made.add_control_edge(made.node("b"), made.node("a"))
    with pytest.raises(InvalidArgumentError, match="the graph has a cycle"):
        NodeOrder(made).positions()
