"""The names of operations identify the nodes that they were traced from."""

from __future__ import annotations

import pytest

from graphmill_plugins.jit.ir.node_scopes import paths_of, scope_of


def test_a_scope_is_one_part_of_a_name() -> None:
    assert paths_of(f"jit(f)/{scope_of('layer/x')}/dot_general") == [("layer/x",)]


@pytest.mark.parametrize(
    ("operation", "paths"),
    [
        ("jit(f)/while/body/add", []),
        ("jit(f)/node:a/while/body/node:b:c/add", [("a", "b/c")]),
        ("jit(f)/node:a/add;jit(f)/node:b/mul", [("a",), ("b",)]),
        ("jit(f)/transpose(jvp(node:a))/mul", [("a",)]),
    ],
)
def test_paths_contain_the_nodes_around(operation: str, paths: list[tuple[str, ...]]) -> None:
    assert paths_of(operation) == paths
