"""The full graph of a session (clauses S3, S4)."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill import errors, ops, proto
from graphmill.graph.builder import Graph
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.lowering.execution_state import GraphExecutionState
from graphmill.lowering.passes import PassOptions
from graphmill.plugin.host import Host
from graphmill.plugin.markers import hookimpl
from graphmill.session.session import Session
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

X = node_def("x", "Placeholder", dtype="float32", shape=None)


@pytest.fixture
def host() -> Host:
    return Host(load_entry_points=False)


@pytest.fixture
def make(host: Host) -> Any:
    def make_state(*, is_static: bool = False) -> GraphExecutionState:
        options = PassOptions(proto.ConfigProto(), None, host)  # type: ignore[arg-type]
        return GraphExecutionState(host.ops, options, is_static=is_static)

    return make_state


def test_s3_extension_adds_nodes_and_an_error_adds_none(make: Any) -> None:
    state = make()
    state.extend(graph_def(X))
    with pytest.raises(errors.NotFoundError):
        state.extend(graph_def(const_def("c", 1.0), node_def("y", "Nge", "x")))
    assert [node.name for node in state.graph] == ["x"]
    state.extend(graph_def(node_def("y", "Neg", "x", T="float32")))
    assert state.to_graph_def().node[1].input == ["x"]


def test_s4_a_static_graph_is_frozen_after_its_first_use(make: Any) -> None:
    state = make(is_static=True)
    state.extend(graph_def(X))
    state.freeze()
    for extend in (
        lambda: state.extend(graph_def(const_def("c", 1.0))),
        lambda: state.extend_from(Graph(), []),
    ):
        with pytest.raises(errors.FailedPreconditionError, match="optimize_for_static_graph"):
            extend()
    plain = make()
    plain.freeze()
    plain.extend(graph_def(X))


def drawn() -> Graph:
    graph = Graph()
    with graph.as_default():
        x = graph.constant(1.0, name="x")
        with graph.control_dependencies([graph.constant(2.0, name="first")]):
            ops.math.neg(x, name="y")
    return graph


def test_s3_nodes_of_a_graph_object_are_copied_with_their_edges(make: Any) -> None:
    graph, state = drawn(), make()
    state.extend_from(graph, graph.nodes)
    assert graph_to_graph_def(state.graph).node == graph_to_graph_def(graph).node
    assert all(node.graph is state.graph for node in state.graph)


def test_s3_source_is_not_copied(make: Any) -> None:
    graph, state = drawn(), make()
    graph.connect_source_and_sink()
    state.extend_from(graph, graph.nodes)
    assert [src.name for node in state.graph for src in node.control_inputs] == ["first"]


def test_s3_functions_are_copied_and_failure_is_atomic(make: Any) -> None:
    graph, state = drawn(), make()
    graph.library.add(function_def("f", {}, {}))
    state.extend(graph_def(node_def("y", "NoOp")))
    with pytest.raises(errors.AlreadyExistsError, match="already has a node 'y'"):
        state.extend_from(graph, graph.nodes)
    assert [node.name for node in state.graph] == ["y"]
    assert len(state.graph.library) == 0
    state.extend_from(graph, [graph.node("x")])
    assert "f" in state.graph.library


def test_s4_client_graph_is_pruned_before_passes() -> None:
    seen: list[list[str]] = []

    class Plugin:
        @hookimpl
        def graphmill_register_passes(self, passes: Any) -> None:
            passes.add("look", self.look, phase="PRE_PLACEMENT")

        def look(self, graph: Any, options: Any) -> None:
            seen.append([node.name for node in graph])

    host = Host(plugins=[Plugin()], load_entry_points=False)
    config = proto.ConfigProto(graph_options={"place_pruned_graph": True})
    options = PassOptions(config, None, host)  # type: ignore[arg-type]
    state = GraphExecutionState(host.ops, options, is_static=False)
    state.extend(graph_def(X, node_def("y", "Neg", "x", T="float32"), const_def("c", 1.0)))
    client = state.build_client_graph(["x:0"], ["y:0"], [])
    assert seen == [["y", "_arg_x_0_0", "_retval_y_0_0"]]
    assert [node.name for node in client.graph] == seen[0]


ELSEWHERE = "/device:NPU:3"


def session_with_unneeded_node(config: Any = None, device: str = ELSEWHERE) -> Any:
    graph = Graph()
    with graph.as_default():
        graph.constant(1.0, name="y")
        with graph.device(device):
            graph.constant(2.0, name="unneeded")
    return Session(graph=graph, config=config)


def test_a_step_fails_if_an_unneeded_node_requests_a_missing_device() -> None:
    with session_with_unneeded_node() as session:
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="place_pruned_graph") as caught:
                session.run("y:0")
            assert caught.value.node == "unneeded"


@pytest.mark.parametrize(
    ("config", "device"),
    [
        ({"graph_options": {"place_pruned_graph": True}}, ELSEWHERE),
        ({"allow_soft_placement": True}, ELSEWHERE),
        (None, "/device:CPU:0"),
    ],
)
def test_an_unneeded_node_may_be_placeable_soft_or_unchecked(config: Any, device: str) -> None:
    with session_with_unneeded_node(config, device) as session:
        assert session.run("y:0") == 1


def test_soft_placement_keeps_the_task_of_an_unneeded_node() -> None:
    config = {"allow_soft_placement": True}
    with (
        session_with_unneeded_node(config, "/job:ps/task:1") as session,
        pytest.raises(errors.InvalidArgumentError, match="not a task of the session"),
    ):
        session.run("y:0")


def test_a_new_node_on_a_missing_device_fails_steps_that_have_run() -> None:
    graph = Graph()
    with graph.as_default():
        graph.constant(1.0, name="y")
    with Session(graph=graph) as session:
        assert session.run("y:0") == 1
        with graph.as_default(), graph.device(ELSEWHERE):
            graph.constant(2.0, name="unneeded")
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="NPU"):
                session.run("y:0")


def test_the_variable_decides_for_an_unneeded_node_that_takes_its_handle() -> None:
    graph = Graph()
    with graph.as_default():
        graph.constant(1.0, name="y")
        value = graph.constant(2.0)
        with graph.device("/device:CPU:0"):
            variable = ops.state.var_handle_op(dtype="float32", shape=[], name="v")
        with graph.device(ELSEWHERE):
            graph.create_op("AssignVariableOp", [variable, value], name="assign")
    with Session(graph=graph) as session:
        assert session.run("y:0") == 1
