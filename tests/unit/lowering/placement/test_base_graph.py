"""Nodes that no step needs must be placeable, unless `place_pruned_graph` is set (clause S4)."""

from __future__ import annotations

import sys
from typing import Any

import pytest

import graphmill
from graphmill import Host, Session, errors, ops, proto
from graphmill.ops.attrs.attr_types import FuncAttr

PRUNED = {"graph_options": {"place_pruned_graph": True}}


def graph_with(op: str, **attrs: Any) -> graphmill.Graph:
    """Return a graph with a constant `y`, and a node of `op` that it does not need."""
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(1.0, name="y")
        graph.create_op(op, [], attrs, name="unneeded")
    return graph


UNPLACEABLE = {
    "no kernel": graph_with("ConfigureDistributedTPU"),
    "no function": graph_with("PartitionedCall", f=FuncAttr("gone"), Tin=[], Tout=["float32"]),
}


@pytest.mark.parametrize("graph", UNPLACEABLE.values(), ids=list(UNPLACEABLE))
def test_step_fails_if_an_unneeded_node_cannot_be_placed(graph: graphmill.Graph) -> None:
    with Session(graph=graph) as session:
        for _ in range(2):
            with pytest.raises(errors.InvalidArgumentError, match="place_pruned_graph") as caught:
                session.run("y:0")
            assert caught.value.node == "unneeded"
            assert caught.value.op_type == graph.get_operation_by_name("unneeded").type


@pytest.mark.parametrize("graph", UNPLACEABLE.values(), ids=list(UNPLACEABLE))
def test_only_needed_nodes_are_checked_with_place_pruned_graph(graph: graphmill.Graph) -> None:
    with Session(graph=graph, config=PRUNED) as session:
        assert session.run("y:0") == 1


def test_missing_kernels_of_needed_nodes_are_reported_together() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        for name in ("first", "second"):
            graph.create_op("ConfigureDistributedTPU", [], name=name)
    with Session(graph=graph) as session:
        with pytest.raises(errors.NotFoundError, match="first, second"):
            session.run(["first:0", "second:0"])
        with pytest.raises(errors.InvalidArgumentError, match="second"):
            session.run("first:0")


def test_node_that_is_added_later_fails_steps_that_have_run() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        y = graph.constant(1.0)
    with Session(graph=graph) as session:
        assert session.run(y) == 1
        with graph.as_default():
            graph.create_op("ConfigureDistributedTPU", [], name="unneeded")
            other = graph.constant(2.0)
        with pytest.raises(errors.InvalidArgumentError, match="unneeded"):
            session.run(other)


def test_variables_of_one_unneeded_node_on_two_devices_are_refused() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        y = graph.constant(1.0)
        variables = []
        for device in ("/cpu:0", "/cpu:1"):
            with graph.device(device):
                variables.append(ops.state.var_handle_op(dtype="float32", shape=[]))
        graph.create_op("ResourceApplyAddSign", [*variables, *[y] * 5])
    with (
        Session(graph=graph, config={"device_count": {"CPU": 2}}) as session,
        pytest.raises(errors.InvalidArgumentError, match="Cannot colocate nodes"),
    ):
        session.run(y)


def test_op_of_a_plugin_may_lack_a_kernel_because_a_pass_may_replace_it() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            ops.add(proto.OpDef(name="Mine>Replaced"))

    host = Host(plugins=[Plugin()])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        y = graph.constant(1.0)
        graph.create_op("Mine>Replaced", [])
    with Session(graph=graph, host=host) as session:
        assert session.run(y) == 1


def test_base_graph_check_imports_no_kernels() -> None:
    host = Host()
    before = set(sys.modules)
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        y = graph.constant(1.0)
        ops.audio.decode_wav(graph.constant(b""))
    with Session(graph=graph, host=host) as session:
        assert session.run(y) == 1
    loaded = {name for name in set(sys.modules) - before if ".kernels." in name}
    assert not {name for name in loaded if "audio" in name}
