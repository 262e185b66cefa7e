"""Calls of functions are replaced by the bodies, each of which is prepared once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import graphmill
from graphmill.testing.proto_builders import function_def, graph_def, node_def
from graphmill_plugins.passes import function_inlining

if TYPE_CHECKING:
    import pytest


def calls(count: int, functions: tuple[str, ...] = ("double",)) -> Any:
    """Return a graph that calls functions one after the other; each doubles its argument."""
    nodes = [node_def("n0", "Placeholder", dtype="float32")]
    for index in range(count):
        function = functions[index % len(functions)]
        nodes.append(node_def(f"n{index + 1}", function, f"n{index}"))
    body = node_def("sum", "AddV2", "x", "x", T="float32")
    return graph_def(
        *nodes,
        functions=[
            function_def(name, {"x": "float32"}, {"r": ("float32", "sum:z:0")}, body)
            for name in functions
        ],
    )


def ops_of(session: graphmill.Session, fetch: str) -> set[str]:
    """Return the ops of the nodes that a step of the session runs."""
    metadata = graphmill.RunMetadata()
    options = graphmill.RunOptions(output_partition_graphs=True)
    session.run(fetch, {"n0:0": 1.0}, options=options, run_metadata=metadata)
    return {node.op for graph in metadata.partition_graphs for node in graph.node}


def test_body_is_prepared_once_for_all_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = []
    original = function_inlining.function_with_effects

    def count(name: str, *arguments: Any) -> Any:
        prepared.append(name)
        return original(name, *arguments)

    monkeypatch.setattr(function_inlining, "function_with_effects", count)
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=calls(10, ("double", "twice")), config=config) as session:
        assert session.run("n10:0", {"n0:0": 1.0}) == 2**10
    assert sorted(prepared) == ["double", "twice"]


def test_limit_does_not_count_the_calls_of_the_graph_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(function_inlining, "_MAX_CALLS", 2)
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=calls(5), config=config) as session:
        assert session.run("n5:0", {"n0:0": 1.0}) == 2**5
        assert "double" not in ops_of(session, "n5:0")
