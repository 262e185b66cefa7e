"""Functions that call each other twice cannot use up memory or outlast a timeout."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, proto
from graphmill.testing.proto_builders import const_def, graph_def, node_def

LEVELS = 40


def function(name: str, *nodes: Any, ret: str) -> Any:
    made = proto.FunctionDef()
    made.signature.name = name
    made.signature.input_arg.add(name="x", type=1)
    made.signature.output_arg.add(name="y", type=1)
    made.node_def.extend(nodes)
    made.ret["y"] = ret
    return made


def doubling(levels: int) -> Any:
    """Return a graph that calls a function of `2 ** levels` nodes."""
    graph = graph_def(const_def("c", 2.0), node_def("call", f"f{levels}", "c"))
    graph.library.function.append(
        function("f0", node_def("s", "Neg", "x", T="float32"), ret="s:y:0")
    )
    for level in range(levels):
        calls = node_def("a", f"f{level}", "x"), node_def("b", f"f{level}", "a:y:0")
        graph.library.function.append(function(f"f{level + 1}", *calls, ret="b:y:0"))
    return graph


def with_call_ops(graph: Any) -> Any:
    """Replace nodes whose op is a function by `PartitionedCall` nodes."""
    for node in (*graph.node, *(n for f in graph.library.function for n in f.node_def)):
        if node.op.startswith("f"):
            node.attr["f"].func.name = node.op
            node.attr["Tin"].list.type.append(1)
            node.attr["Tout"].list.type.append(1)
            node.op = "PartitionedCall"
            node.input[:] = [source.replace(":y:", ":output:") for source in node.input]
    for made in graph.library.function:
        made.ret["y"] = made.ret["y"].replace("b:y:0", "b:output:0")
    return graph


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("calls", ["by name", "by attr"])
def test_step_of_2_to_the_40_calls_ends_within_its_timeout(jit: str, calls: str) -> None:
    config = {"operation_timeout_in_ms": 500, "graphmill": {"jit": jit}}
    graph = doubling(LEVELS)
    if calls == "by attr":
        with_call_ops(graph)
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(errors.DeadlineExceededError),
    ):
        session.run("call:0")


def test_calls_beyond_the_limit_of_inlining_give_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphmill_plugins.passes.function_inlining._MAX_CALLS", 5)
    with graphmill.Session(graph=doubling(4), config={"graphmill": {"jit": "off"}}) as session:
        assert session.run("call:0") == 2
