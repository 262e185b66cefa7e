"""Groups of a drawing: few children in each, every node in one, order kept."""

from __future__ import annotations

from collections import Counter

import pytest

from graphmill.report.graph_nodes import GraphNodes
from graphmill.report.groupings import MAX_CHILDREN, Grouping, grouping, scope_path


def nodes_named(*names: str) -> GraphNodes:
    nodes = GraphNodes()
    for name in names:
        nodes.names.append(name)
        nodes.ops.append("NoOp")
        nodes.inputs.append([])
        nodes.functions.append("")
        nodes.frames.append(())
        nodes.attrs.append("")
    return nodes


def by_scope(*names: str) -> Grouping:
    nodes = nodes_named(*names)
    return grouping("scope", "Name scopes", nodes, lambda at: scope_path(nodes, at))


def path(made: Grouping, node: int) -> list[str]:
    labels = []
    group = made.of[node]
    while group > 0:
        labels.append(made.labels[group])
        group = made.parents[group]
    return labels[::-1]


def test_groups_follow_name_scopes() -> None:
    made = by_scope("a/b/c", "a/d", "e")
    assert [path(made, node) for node in range(3)] == [["a", "b"], ["a"], []]
    assert set(made.kinds) == {"root", "scope"}


def test_a_node_may_have_the_name_of_a_scope() -> None:
    made = by_scope("loop", "loop/body")
    assert [path(made, node) for node in range(2)] == [[], ["loop"]]


@pytest.mark.parametrize("count", [41, 1_000, 70_000])
def test_many_nodes_without_scopes_are_divided(count: int) -> None:
    made = by_scope(*(f"node_{number}" for number in range(count)))
    children = Counter(made.parents[1:]) + Counter(made.of)
    assert max(children.values()) <= MAX_CHILDREN
    first = path(made, 0)
    assert first[-1].startswith("node_0 … node_")
    assert {path(made, node)[0] for node in range(count)} == {
        label for label, parent in zip(made.labels, made.parents, strict=True) if parent == 0
    }


def test_many_scopes_are_divided_in_their_order() -> None:
    made = by_scope(*(f"layer_{number}/x" for number in range(100)))
    assert path(made, 0) == ["layer_0 … layer_33", "layer_0"]
    assert path(made, 99) == ["layer_68 … layer_99", "layer_99"]


def test_a_graph_without_nodes_has_only_the_root() -> None:
    assert by_scope().as_dict()["parents"] == [-1]
