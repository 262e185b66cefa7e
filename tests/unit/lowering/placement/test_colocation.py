"""Colocation groups: nodes that must be on one device (clause P1)."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.lowering.placement.colocation import ColocationGroups, must_colocate
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.proto_builders import graph_def, node_def


def groups_of(*nodes: Any) -> ColocationGroups:
    groups = ColocationGroups()
    groups.add(graph_from_graph_def(graph_def(*nodes), OpRegistry()).nodes)
    return groups


def test_p1_nodes_that_name_each_other_are_one_group() -> None:
    groups = groups_of(
        node_def("a", "NoOp"),
        node_def("b", "NoOp", _class=[b"loc:@a"]),
        node_def("c", "NoOp", _class=[b"loc:@b", b"loc:@gone"]),
        node_def("d", "NoOp"),
    )
    assert groups.find("a") == groups.find("b") == groups.find("c") == groups.find("gone")
    assert groups.find("d") == "d"


def test_p1_references_and_handles_join_both_ends() -> None:
    nodes = (
        node_def("v", "VariableV2", dtype="float32", shape=None),
        node_def("assign", "Assign", "v", "v", T="float32"),
        node_def("handle", "VarHandleOp", dtype="float32", shape=None),
        node_def("read", "ReadVariableOp", "handle", dtype="float32"),
        node_def("neg", "Neg", "v", T="float32"),
    )
    groups = groups_of(*nodes)
    assert groups.find("v") == groups.find("assign")
    assert groups.find("handle") == groups.find("read")
    assert groups.find("neg") == "neg"
    graph = graph_from_graph_def(graph_def(*nodes), OpRegistry())
    assert [must_colocate(edge) for edge in graph.node("assign").in_edges] == [True, False]


@pytest.mark.parametrize("value", [3, 1.5, b"loc:@a", [3], [b"a"], ["float32"], True])
def test_p1_attr_that_names_no_group_requests_none(value: Any) -> None:
    """A colocation attr that names no group requests none, as in TensorFlow."""
    groups = groups_of(node_def("a", "NoOp"), node_def("b", "NoOp", _class=value))
    assert groups.find("b") == "b"


def test_p1_names_that_are_no_utf_8_are_names_too() -> None:
    groups = groups_of(
        node_def("a", "NoOp", _class=[b"loc:@\xff"]), node_def("b", "NoOp", _class=[b"loc:@\xff"])
    )
    assert groups.find("a") == groups.find("b")


def test_p1_a_long_chain_of_groups_needs_no_deep_stack() -> None:
    chain = [node_def(f"n{i}", "NoOp", _class=[f"loc:@n{i + 1}".encode()]) for i in range(5000)]
    assert len({groups_of(*chain).find(f"n{i}") for i in (0, 2500, 4999)}) == 1
