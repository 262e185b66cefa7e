"""The pass verifier (clause P4) names a pass that breaks a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graphmill import dtypes, errors, proto
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.lowering.passes import PassOptions, run_passes
from graphmill.lowering.prune import build_client_graph
from graphmill.lowering.verify import verify_graph
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.session.session import Session
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill.testing.generators.dataflow_graphs import random_graph
from graphmill.testing.proto_builders import graph_def, node_def

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.graph import Graph

OPS = OpRegistry()
DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def client_graph() -> Graph:
    """`y = -x` and an independent loop, before passes."""
    frame = {"frame_name": b"loop", "parallel_iterations": 10}
    message = graph_def(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("p", "Placeholder", dtype="bool"),
        node_def("y", "Neg", "x", T="float32"),
        node_def("enter", "Enter", "y", T="float32", **frame),
        node_def("enter_p", "Enter", "p", T="bool", is_constant=True, **frame),
        node_def("merge", "Merge", "enter", "next", T="float32", N=2),
        node_def("cond", "LoopCond", "enter_p"),
        node_def("switch", "Switch", "merge", "cond", T="float32"),
        node_def("next", "NextIteration", "switch:1", T="float32"),
        node_def("exit", "Exit", "switch", T="float32"),
    )
    full = graph_from_graph_def(message, OPS)
    graph = build_client_graph(full, OPS, ["x:0", "p:0"], ["y:0", "exit:0"], []).graph
    for node in graph.nodes:
        node.assigned_device = DEVICE
    return graph


def read_other_type(graph: Graph) -> None:
    node = graph.node("y")
    node.attrs = {**node.attrs, "T": dtypes.int32}


def read_missing_output(graph: Graph) -> None:
    graph.node("y").in_edges[0].src_output = 3


def read_lost_node(graph: Graph) -> None:
    graph.withdraw([graph.node("y")])
    graph.node("enter").in_edges[0].src = client_graph().node("y")


def forget_output(graph: Graph) -> None:
    graph.node("y").in_edges[0].src.out_edges.clear()


def forget_input(graph: Graph) -> None:
    graph.node("switch").in_edges.pop()


def swap_inputs(graph: Graph) -> None:
    graph.node("switch").in_edges.reverse()


def list_a_stranger(graph: Graph) -> None:
    graph.node("y").out_edges.append(graph.node("switch").in_edges[0])


def rename(graph: Graph) -> None:
    graph.node("y").name = "z"


def close_a_cycle(graph: Graph) -> None:
    graph.add_control_edge(graph.node("y"), graph.node("y").in_edges[0].src)


def leave_a_frame(graph: Graph) -> None:
    outside = next(node for node in graph.nodes if node.op == "_Retval")
    graph.add_control_edge(graph.node("switch"), outside)


def lose_a_fetch(graph: Graph) -> None:
    graph.withdraw([node for node in graph.nodes if node.op == "_Retval"][:1])


def fetch_twice(graph: Graph) -> None:
    op_def = OPS.get("_Retval")
    attrs = op_def.with_defaults({"T": dtypes.float32, "index": 0})
    node = graph.add_node("again", op_def, [(graph.node("y"), 0)], attrs=attrs)
    node.assigned_device = DEVICE


def forget_a_device(graph: Graph) -> None:
    graph.node("y").assigned_device = ""


FAULTS = {
    read_other_type: "has input types that differ from its attrs",
    read_missing_output: "output 3 of node",
    read_lost_node: "which is not in the graph",
    forget_output: "does not list",
    forget_input: "do not match 1 inputs specified",
    swap_inputs: "input 0 of 'switch' is",
    list_a_stranger: "destination does not",
    rename: "is not the graph's node of that name",
    close_a_cycle: "cycle that is not a loop",
    leave_a_frame: "inputs from different frames",
    lose_a_fetch: "it lost _Retval 0",
    fetch_twice: "it added _Retval 0",
    forget_a_device: "nodes without a device: y",
}


class Spoiler:
    """A plugin with one pass."""

    def __init__(self, spoil: Callable[[Graph], None]) -> None:
        self._spoil = spoil

    @hookimpl
    def graphmill_register_passes(self, passes: Any) -> None:
        passes.add("spoil", lambda graph, _: self._spoil(graph), phase="POST_PLACEMENT")


def run(spoil: Callable[[Graph], None], graph: Graph) -> None:
    host = Host(plugins=[Spoiler(spoil)], load_entry_points=False)
    run_passes("POST_PLACEMENT", graph, PassOptions(proto.ConfigProto(), None, host))  # type: ignore[arg-type]


@pytest.mark.parametrize("spoil", FAULTS, ids=lambda spoil: spoil.__name__)
def test_p4_a_pass_that_breaks_the_graph_is_named(
    spoil: Callable[[Graph], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    with pytest.raises(errors.InternalError, match=FAULTS[spoil]) as caught:
        run(spoil, client_graph())
    assert "after the graph pass 'spoil' of " in str(caught.value)
    assert "(POST_PLACEMENT)" in str(caught.value)


def test_p4_broken_input_graph_is_not_blamed_on_the_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    graph = client_graph()
    forget_input(graph)
    with pytest.raises(errors.InternalError, match="before the graph pass 'spoil'"):
        run(lambda graph: None, graph)


@pytest.mark.parametrize("setting", ["", "0"])
def test_p4_nothing_is_checked_unless_it_is_requested(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, setting)
    run(forget_a_device, client_graph())


def test_p4_sound_graphs_pass(graphmill_host: Host) -> None:
    verify_graph(client_graph())
    for seed in range(20):
        verify_graph(structured_graph(seed, graphmill_host.ops).graph)


@pytest.mark.parametrize("seed", range(10))
def test_p4_our_own_passes_keep_graphs_sound(
    seed: int, graphmill_host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    made = random_graph(seed, graphmill_host.ops)
    with Session(graph=made.graph_def, host=graphmill_host) as session:
        session.run(list(made.fetches), made.feeds)
