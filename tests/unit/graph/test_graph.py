"""The graph: nodes, edges, edits (clause G1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from graphmill import dtypes, errors
from graphmill.graph.graph import Graph, check_inputs, output_type
from graphmill.ops.definition.op_registry import OpRegistry

if TYPE_CHECKING:
    from graphmill.graph.node import Node

OPS = OpRegistry()
FLOAT = {"T": dtypes.float32}
INT = {"T": dtypes.int32}


def placeholder(graph: Graph, name: str, dtype: dtypes.DType = dtypes.float32) -> Node:
    return graph.add_node(name, OPS.get("Placeholder"), attrs={"dtype": dtype, "shape": None})


def neg(graph: Graph, name: str, src: Node, after: list[Node] | None = None) -> Node:
    return graph.add_node(name, OPS.get("Neg"), [(src, 0)], after or [], dict(FLOAT))


def no_op(graph: Graph, name: str, after: list[Node] | None = None) -> Node:
    return graph.add_node(name, OPS.get("NoOp"), control_inputs=after or [])


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_ids_are_dense_and_begin_after_source_and_sink(graph: Graph) -> None:
    """Node ids are consecutive and begin after those of source and sink (clause G1)."""
    assert (graph.source.id, graph.sink.id) == (0, 1)
    x = placeholder(graph, "x")
    y = neg(graph, "y", x)
    assert (x.id, y.id, graph.num_node_ids) == (2, 3, 4)
    assert graph.nodes == list(graph) == [x, y]
    assert len(graph) == 2


def test_source_and_sink_are_nodes_that_are_not_listed(graph: Graph) -> None:
    """`_SOURCE` and `_SINK` are nodes, but not in the list of nodes (clause G1)."""
    assert graph.node("_SOURCE") is graph.source
    assert graph.node("_SINK") is graph.sink
    assert graph.nodes == []


def test_source_and_sink_are_joined_to_the_loose_ends(graph: Graph) -> None:
    """`_SOURCE` leads to nodes without inputs, nodes without consumers to `_SINK` (clause G1)."""
    x = placeholder(graph, "x")
    y = neg(graph, "y", x)
    graph.connect_source_and_sink()
    assert x.control_inputs == [graph.source]
    assert graph.sink.control_inputs == [y]
    assert [edge.dst for edge in x.out_edges] == [y]


def test_node_is_found_by_name_and_near_matches_are_reported(graph: Graph) -> None:
    """A node is found by name; the error for an unknown name suggests others (clauses G1, S12)."""
    x = placeholder(graph, "weights")
    assert graph.node("weights") is x
    assert graph.has_node("weights")
    assert not graph.has_node("weigths")
    with pytest.raises(errors.NotFoundError, match="no node 'weigths'; did you mean 'weights'"):
        graph.node("weigths")


def test_near_matches_do_not_name_source_and_sink(graph: Graph) -> None:
    with pytest.raises(errors.NotFoundError) as e:
        graph.node("_SOURCES")
    assert e.value.message == "the graph has no node '_SOURCES'"


def test_name_is_unique(graph: Graph) -> None:
    """A second node of the same name is refused (clause G1)."""
    placeholder(graph, "x")
    with pytest.raises(
        errors.AlreadyExistsError, match="already has a node 'x' \\(op Placeholder\\)"
    ):
        no_op(graph, "x")
    assert len(graph) == 1


def test_too_few_inputs_add_no_node(graph: Graph) -> None:
    """A node with too few inputs is refused and not added (clauses G1, S12)."""
    x = placeholder(graph, "x")
    with pytest.raises(errors.InvalidArgumentError, match="'float' do not match 0 inputs") as e:
        graph.add_node("y", OPS.get("Neg"), attrs=dict(FLOAT))
    assert (e.value.node, e.value.op_type) == ("y", "Neg")
    assert graph.nodes == [x]
    assert graph.num_node_ids == 3


def test_rejected_input_leaves_no_edge(graph: Graph) -> None:
    """A node with an input of the wrong type is refused and leaves no edge (clauses G1, S12)."""
    x = placeholder(graph, "x", dtypes.int32)
    with pytest.raises(errors.InvalidArgumentError, match=r"was passed int32 .* expected float"):
        neg(graph, "y", x)
    assert x.out_edges == []
    assert not graph.has_node("y")


def test_reference_converts_to_value_but_not_vice_versa(
    graph: Graph,
) -> None:
    """A reference may be read as a value, but a value not as a reference (clause G1)."""
    attrs = {"dtype": dtypes.float32, "shape": None, "container": b"", "shared_name": b""}
    variable = graph.add_node("v", OPS.get("VariableV2"), attrs=attrs)
    check_inputs(neg(graph, "y", variable), [dtypes.float32.as_ref])
    assign = OPS.get("Assign")
    x = placeholder(graph, "x")
    with pytest.raises(errors.InvalidArgumentError, match=r"passed float .* expected float_ref"):
        graph.add_node("a", assign, [(x, 0), (x, 0)], attrs=assign.with_defaults(FLOAT))


def test_an_output_that_a_node_does_not_have(graph: Graph) -> None:
    """The error for an output that does not exist names the node (clauses G1, S12)."""
    x = placeholder(graph, "x")
    assert output_type(x, 0) is dtypes.float32
    for index in (1, -1):
        with pytest.raises(errors.InvalidArgumentError, match=f"output {index} of node 'x'"):
            output_type(x, index)


def test_inputs_are_connected_in_their_order(graph: Graph) -> None:
    """Inputs must be connected in order (clause G1)."""
    x = placeholder(graph, "x")
    y = graph.add_unconnected("y", OPS.get("AddV2"), dict(FLOAT), "")
    with pytest.raises(errors.InvalidArgumentError, match="input 1 is connected before input 0"):
        graph.add_edge(x, 0, y, 1)
    graph.add_edge(x, 0, y, 0)
    graph.add_edge(x, 0, y, 1)
    assert [edge.dst_input for edge in y.in_edges] == [0, 1]
    assert len(x.out_edges) == 2


def test_control_edge_is_not_duplicated(graph: Graph) -> None:
    """Adding a control edge again returns the existing one (clause G1)."""
    a, b, c = (no_op(graph, name) for name in "abc")
    edge = graph.add_control_edge(a, c)
    assert graph.add_control_edge(a, c) is edge
    assert graph.add_edge(a, -1, c, -1) is edge
    graph.add_control_edges([a, b, b], c)
    assert c.control_inputs == [a, b]
    assert len(a.out_edges) == len(b.out_edges) == 1


def test_a_control_edge_is_removed_at_both_ends(graph: Graph) -> None:
    """A removed control edge is absent from both of its nodes (clause G1)."""
    a, b = no_op(graph, "a"), no_op(graph, "b")
    graph.remove_control_edge(graph.add_control_edge(a, b))
    assert a.out_edges == b.control_in_edges == []


def test_an_input_can_be_made_to_read_another_output(graph: Graph) -> None:
    """An input can be replaced by another output (clause G1)."""
    x, z = placeholder(graph, "x"), placeholder(graph, "z")
    y = neg(graph, "y", x)
    graph.replace_input(y, 0, z, 0)
    assert y.sources == [(z, 0)]
    assert x.out_edges == []
    assert [edge.dst for edge in z.out_edges] == [y]


def test_an_input_cannot_be_made_to_read_another_type(graph: Graph) -> None:
    """An input cannot be replaced by an output of another type (clauses G1, S12)."""
    x, z = placeholder(graph, "x"), placeholder(graph, "z", dtypes.int32)
    y = neg(graph, "y", x)
    with pytest.raises(errors.InvalidArgumentError, match="passed int32"):
        graph.replace_input(y, 0, z, 0)
    with pytest.raises(errors.InvalidArgumentError, match="output 3 of node 'x'"):
        graph.replace_input(y, 0, x, 3)
    assert y.sources == [(x, 0)]


def test_an_attr_can_be_changed_and_types_follow(graph: Graph) -> None:
    """Changing a type attr changes the types of inputs and outputs (clause G1)."""
    x = placeholder(graph, "x")
    graph.set_attr(x, "dtype", dtypes.int64)
    assert x.get_attr("dtype") is dtypes.int64
    assert x.output_types == (dtypes.int64,)


def test_attr_of_a_copy_is_independent(graph: Graph) -> None:
    """Changing an attr of a copy does not change the original (clause G1)."""
    x = placeholder(graph, "x")
    other = Graph()
    copy = other.copy_nodes([x])[x]
    other.set_attr(copy, "dtype", dtypes.int64)
    assert x.get_attr("dtype") is dtypes.float32


def test_attr_without_type_is_refused(graph: Graph) -> None:
    """Setting an attr of a node that lacks a type attr is refused (clauses G1, S12)."""
    y = neg(graph, "y", placeholder(graph, "x"))
    del y.attrs["T"]
    with pytest.raises(errors.InvalidArgumentError, match="'T' is missing"):
        graph.set_attr(y, "_other", 1)
    assert "_other" not in y.attrs


def test_copies_keep_name_device_and_debug_info(graph: Graph) -> None:
    """A copied node has the name, devices and debug info of the original (clause G1)."""
    x = graph.add_node("x", OPS.get("NoOp"), device="/cpu:0")
    x.assigned_device, x.debug_info = "/device:CPU:0", b"info"
    copy = Graph().copy_nodes([x])[x]
    assert (copy.name, copy.device, copy.assigned_device) == ("x", "/cpu:0", "/device:CPU:0")
    assert copy.debug_info == b"info"
    assert copy.in_edges == []


def test_a_node_that_is_read_cannot_be_removed(graph: Graph) -> None:
    """A node with consumers cannot be removed (clause G1)."""
    x = placeholder(graph, "x")
    neg(graph, "y", x)
    with pytest.raises(errors.InvalidArgumentError, match="while 'y' reads it") as e:
        graph.remove_node(x)
    assert e.value.node == "x"
    assert graph.has_node("x")


def test_removing_a_node_keeps_the_ids_of_others(graph: Graph) -> None:
    """Removing a node does not change the ids of other nodes (clause G1)."""
    x = placeholder(graph, "x")
    y = neg(graph, "y", x)
    z = no_op(graph, "z", [y])
    graph.remove_node(y)
    assert graph.nodes == [x, z]
    assert (z.id, graph.num_node_ids) == (4, 5)
    assert x.out_edges == z.control_in_edges == []
    assert not graph.has_node("y")


def test_withdrawn_nodes_leave_nothing(graph: Graph) -> None:
    """A refused extension leaves no nodes (clause S3)."""
    x = placeholder(graph, "x")
    old = no_op(graph, "old")
    y = neg(graph, "y", x, [old])
    z = neg(graph, "z", y)
    graph.add_control_edge(z, old)
    graph.withdraw([y, z])
    assert graph.nodes == [x, old]
    assert graph.num_node_ids == 4
    assert x.out_edges == old.out_edges == old.control_in_edges == []
    assert placeholder(graph, "y").id == 4


def test_nodes_since_returns_later_nodes(graph: Graph) -> None:
    """`nodes_since` returns the nodes from an id on (clause S3)."""
    placeholder(graph, "x")
    size = graph.num_node_ids
    y = no_op(graph, "y")
    assert graph.nodes_since(size) == [y]
    assert graph.nodes_since(0) == graph.nodes


@pytest.mark.parametrize("edit", ["control edge", "input", "attr", "remove", "remove control"])
def test_change_of_node_in_session_is_an_edit(graph: Graph, edit: str) -> None:
    """A change of a node that a session has copied counts as an edit (clause S3)."""
    x = placeholder(graph, "x")
    y = neg(graph, "y", x)
    after = no_op(graph, "after", [y])
    graph.mark_taken()
    new = placeholder(graph, "new")
    assert graph.edit_count == 0
    if edit == "control edge":
        graph.add_control_edge(new, y)
    elif edit == "input":
        graph.replace_input(y, 0, new, 0)
    elif edit == "attr":
        graph.set_attr(y, "_note", b"changed")
    elif edit == "remove":
        graph.remove_node(after)
    else:
        graph.remove_control_edge(after.control_in_edges[0])
    assert graph.edit_count == 1


def test_change_of_node_outside_sessions_is_not_an_edit(graph: Graph) -> None:
    """A change of a node that no session has copied does not count as an edit (clause S3)."""
    x = placeholder(graph, "x")
    graph.mark_taken()
    y = neg(graph, "y", x)
    graph.set_attr(y, "_note", b"new")
    graph.add_control_edge(x, y)
    graph.remove_node(y)
    assert graph.edit_count == 0


def test_an_op_given_by_name_is_refused_with_advice(graph: Graph) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"host\.ops\.get\('NoOp'\)") as caught:
        graph.add_node("n", "NoOp")  # type: ignore[arg-type]
    assert caught.value.node == "n"


def test_attrs_in_place_of_control_inputs_are_refused(graph: Graph) -> None:
    x = placeholder(graph, "x")
    with pytest.raises(errors.InvalidArgumentError, match="pass attrs by keyword"):
        graph.add_node("n", OPS.get("Neg"), [(x, 0)], FLOAT)  # type: ignore[arg-type]
    assert graph.nodes == [x]
