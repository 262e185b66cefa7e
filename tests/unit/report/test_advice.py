"""What a report advises to try."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import ops, report


@pytest.mark.jax
def test_a_slow_loop_that_is_not_compiled_is_named_with_the_reason() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("string", [], name="x")
        loop = graphmill.while_loop(
            lambda _, i: i < 300,
            lambda s, i: (ops.string.string_lower(s), i + 1),
            [x, graph.constant(0)],
            name="slow",
        )
        ops.array.identity(loop[0], name="y")
    with graphmill.Session(graph=graph) as session:
        data = report.collect(session, "y:0", {"x:0": b"A"}, steps=8)
    found = [one for one in data["advice"] if "which is not compiled" in one["title"]]
    assert len(found) == 1
    assert "some of its nodes cannot be traced: slow/StringLower (StringLower)" in found[0]["text"]
    assert found[0]["nodes"]
