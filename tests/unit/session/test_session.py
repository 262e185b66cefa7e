"""Sessions are created and extended (clauses S1, S3, S4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.graph.builder import Graph
from graphmill.proto import ConfigProto
from graphmill.testing.proto_builders import function_def, graph_def, node_def

if TYPE_CHECKING:
    from pathlib import Path

X = node_def("x", "Placeholder", dtype="float32", shape=None)
Y = node_def("y", "Neg", "x", T="float32")
PREFIX = "/job:localhost/replica:0/task:0/device:"


def identity(name: str, src: str) -> Any:
    return node_def(name, "Identity", src, T="float32")


# ---------------------------------------------------------------------------------------- create


def test_s1_a_graph_may_be_given_in_any_form(tmp_path: Path) -> None:
    message = graph_def(X, Y)
    path = tmp_path / "model.pb"
    path.write_bytes(message.SerializeToString())
    own = Graph.from_graph_def(message)
    for graph in (message, message.SerializeToString(), path, str(path), own):
        with graphmill.Session(graph=graph) as session:
            assert session.run("y:0", {"x:0": 2.0}) == -2


def test_s1_a_session_may_begin_empty() -> None:
    with graphmill.Session() as session:
        with pytest.raises(errors.NotFoundError):
            session.run("y:0")
        session.extend(graph_def(X, Y))
        assert session.run("y:0", {"x:0": 2.0}) == -2


def test_s1_one_cpu_by_default_or_device_count() -> None:
    with graphmill.Session(config={"device_count": {"GPU": 0}}) as session:
        cpus = [d.name for d in session.list_devices() if d.device_type == "CPU"]
        assert cpus == [PREFIX + "CPU:0"]
    with graphmill.Session(config={"device_count": {"CPU": 3, "GPU": 0}}) as session:
        devices = [d for d in session.list_devices() if d.device_type == "CPU"]
    assert [d.name for d in devices] == [f"{PREFIX}CPU:{i}" for i in range(3)]
    assert len({d.incarnation for d in devices}) == 3
    assert all(d.memory_limit > 0 for d in devices)


def test_s1_a_config_may_be_a_message_bytes_or_a_dict() -> None:
    config = ConfigProto(device_count={"CPU": 2, "GPU": 0})
    for one in (config, config.SerializeToString(), {"device_count": {"CPU": 2, "GPU": 0}}):
        with graphmill.Session(config=one) as session:
            assert sum(d.device_type == "CPU" for d in session.list_devices()) == 2


def test_s1_unknown_device_type_is_reported() -> None:
    with pytest.raises(
        errors.InvalidArgumentError, match=r"device_count requests .* type NPU; regis"
    ):
        graphmill.Session(config={"device_count": {"NPU": 1}})


def test_s1_an_unknown_target_is_not_found() -> None:
    with pytest.raises(errors.NotFoundError, match="no session factory for target 'smoke://x'"):
        graphmill.Session("smoke://x")


def test_s1_a_file_as_target_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(b"")
    with pytest.raises(errors.NotFoundError) as caught:
        graphmill.Session(str(path))
    assert f"try: Session(graph={str(path)!r})" in caught.value.__notes__[0]


def test_s1_optimizer_options_do_not_change_results() -> None:
    options = {"opt_level": "L0", "do_constant_folding": True, "global_jit_level": "ON_2"}
    config = {"graph_options": {"optimizer_options": options, "rewrite_options": {}}}
    with graphmill.Session(graph=graph_def(X, Y), config=config) as session:
        assert session.run("y:0", {"x:0": 2.0}) == -2


# ---------------------------------------------------------------------------------------- extend


def test_s3_a_session_takes_more_nodes_and_functions() -> None:
    twice = function_def(
        "twice",
        {"x": "float32"},
        {"y": ("float32", "s:z:0")},
        node_def("s", "AddV2", "x", "x", T="float32"),
    )
    with graphmill.Session(graph=graph_def(X)) as session:
        assert session.run("x:0", {"x:0": 2.0}) == 2
        session.extend(graph_def(node_def("t", "twice", "x"), functions=[twice]))
        assert session.run("t:0", {"x:0": 2.0}) == 4


@pytest.mark.parametrize(
    "bad",
    [X, node_def("z", "Nge", "x"), identity("z", "gone"), node_def("z", "Neg", "x", T="int32")],
)
def test_s3_a_refused_extension_changes_nothing(bad: Any) -> None:
    with graphmill.Session(graph=graph_def(X, Y)) as session:
        session.run("y:0", {"x:0": 2.0})
        before = session._impl._state.to_graph_def()
        with pytest.raises(errors.OpError):
            session.extend(graph_def(identity("fine", "x"), bad))
        assert session._impl._state.to_graph_def() == before
        assert session.run("y:0", {"x:0": 2.0}) == -2
        session.extend(graph_def(identity("fine", "x")))
        assert session.run("fine:0", {"x:0": 2.0}) == 2


def test_s4_a_session_of_a_static_graph_is_not_extended() -> None:
    config = {"experimental": {"optimize_for_static_graph": True}}
    with graphmill.Session(graph=graph_def(X, Y), config=config) as session:
        with pytest.raises(errors.FailedPreconditionError, match="optimize_for_static_graph"):
            session.extend(graph_def(identity("z", "x")))
        assert session.run("y:0", {"x:0": 2.0}) == -2


def test_s3_a_graph_that_grows_is_followed() -> None:
    graph = Graph()
    x = graph.constant(2.0, name="x")
    with graphmill.Session(graph=graph) as session, graph.as_default():
        assert session.graph is graph
        assert session.run(x) == 2
        y = ops.math.neg(x)
        assert session.run(y) == -2
        z = ops.math.add_v2(y, graph.constant(1.0))
        assert session.make_callable(z)() == -1


def test_s3_nodes_that_are_new_may_still_be_changed() -> None:
    graph = Graph()
    x = graph.constant(2.0, name="x")
    with graphmill.Session(graph=graph) as session, graph.as_default():
        session.run(x)
        y = ops.math.neg(x, name="y")
        graph.set_attr(y.op, "_note", b"changed")
        graph.remove_node(ops.math.neg(x).op)
        assert session.run(y) == -2


def test_s3_a_graph_whose_old_nodes_were_changed_is_refused() -> None:
    graph = Graph()
    x = graph.constant(2.0, name="x")
    with graphmill.Session(graph=graph) as session:
        call = session.make_callable(x)
        graph.set_attr(x.op, "_note", b"changed")
        with pytest.raises(errors.FailedPreconditionError, match="was changed or removed after"):
            session.run(x)
        assert call() == 2
        with graphmill.Session(graph=graph) as fresh:
            assert fresh.run(x) == 2


def test_s3_the_callers_graph_is_never_changed_by_a_session() -> None:
    graph = Graph()
    with graph.as_default():
        ops.math.neg(ops.math.add_v2(graph.constant(1.0), graph.constant(2.0)), name="y")
    before = graph.as_graph_def()
    with graphmill.Session(graph=graph) as session:
        assert session.run("y:0") == -3
    assert graph.as_graph_def() == before
    assert all(not node.assigned_device for node in graph.nodes)
