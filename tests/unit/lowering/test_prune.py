"""The graph of one signature: cut at feeds, and pruned to the needed nodes (clause S4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import dtypes, errors
from graphmill.graph.algorithms import ancestors
from graphmill.graph.formats.import_export import graph_from_graph_def, graph_to_graph_def
from graphmill.lowering.prune import ClientEnd, build_client_graph
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.generators.dataflow_graphs import RandomGraph, graphs
from graphmill.testing.proto_builders import const_def, graph_def, node_def

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph

OPS = OpRegistry()
FULL = graph_from_graph_def(
    graph_def(
        node_def("x", "Placeholder", dtype="float32", device="/cpu:0"),
        node_def("y", "Neg", "x", T="float32"),
        node_def("z", "AddV2", "y", "x", T="float32"),
        node_def("parts", "Unpack", "z", T="float32", num=2),
        node_def("after_x", "NoOp", "^x"),
        node_def("after_y", "NoOp", "^y", "^after_x"),
        node_def("v", "VariableV2", dtype="float32", shape=None),
        node_def("assign", "Assign", "v", "y", T="float32"),
        node_def("other", "Neg", "z", T="float32"),
    ),
    OPS,
)


def client(feeds: Any = (), fetches: Any = (), targets: Any = (), full: Any = FULL) -> Any:
    return build_client_graph(full, OPS, feeds, fetches, targets)


def names(found: Any) -> set[str]:
    return {node.name for node in found.graph}


def inputs(found: Any, name: str) -> list[str]:
    node = found.graph.node(name)
    control = [f"^{src.name}" for src in node.control_inputs]
    return [edge.tensor_name for edge in node.in_edges] + control


def test_s4_unused_nodes_are_pruned() -> None:
    assert names(client([], ["y:0"])) == {"x", "y", "_retval_y_0_0"}
    assert names(client([], [], ["after_y"])) == {"x", "y", "after_x", "after_y"}


def test_s4_consumers_of_a_fed_tensor_read_the_argument() -> None:
    found = client(["y:0"], ["z:0"])
    assert names(found) == {"x", "z", "_arg_y_0_0", "_retval_z_0_0"}
    assert inputs(found, "z") == ["_arg_y_0_0", "x"]


def test_s4_feeds_and_fetches_are_numbered_in_their_order() -> None:
    found = client(["y:0", "x:0"], ["parts:1", "z:0"])
    ends = {
        node.name: node.attrs["index"] for node in found.graph if node.op in ("_Arg", "_Retval")
    }
    assert ends == {"_arg_y_0_0": 0, "_arg_x_0_1": 1, "_retval_parts_1_0": 0, "_retval_z_0_1": 1}
    assert found.feed_types == (dtypes.float32,) * 2
    assert found.fetch_types == (dtypes.float32,) * 2


def test_s4_fed_tensor_can_be_fetched() -> None:
    found = client(["y:0"], ["y:0"])
    assert names(found) == {"_arg_y_0_0", "_retval_y_0_0"}
    assert inputs(found, "_retval_y_0_0") == ["_arg_y_0_0"]


def test_s4_one_output_may_be_fed_and_the_other_computed() -> None:
    found = client(["parts:0"], ["parts:0", "parts:1"])
    assert inputs(found, "_retval_parts_0_0") == ["_arg_parts_0_0"]
    assert inputs(found, "_retval_parts_1_1") == ["parts:1"]


def test_s4_control_edges_of_a_fed_placeholder_come_from_the_argument() -> None:
    found = client(["x:0"], [], ["after_x"])
    assert names(found) == {"_arg_x_0_0", "after_x"}
    assert inputs(found, "after_x") == ["^_arg_x_0_0"]


def test_s4_control_edges_of_other_fed_nodes_stay() -> None:
    found = client(["y:0"], [], ["after_y"])
    assert "y" in names(found)
    assert inputs(found, "after_y") == ["^y", "^after_x"]


def test_s4_a_fed_reference_is_a_value() -> None:
    found = client(["v:0"], ["v:0"])
    assert found.feed_types == found.fetch_types == (dtypes.float32,)
    with pytest.raises(
        errors.InvalidArgumentError, match="Input 0 of node assign was passed float"
    ):
        client(["v:0"], ["assign:0"])


def test_s4_devices_of_feeds_and_attrs_of_nodes_are_kept() -> None:
    found = client(["x:0"], ["y:0"])
    assert found.graph.node("_arg_x_0_0").device == "/cpu:0"
    assert found.graph.node("y").attrs is FULL.node("y").attrs
    assert found.graph.library is FULL.library


def test_s4_the_full_graph_is_not_changed() -> None:
    before = graph_to_graph_def(FULL)
    client(["y:0"], ["z:0", "parts:1"], ["assign"])
    assert graph_to_graph_def(FULL) == before
    assert FULL.edit_count == 0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (([], [], []), errors.InvalidArgumentError, "at least one target to fetch or execute"),
        ((["x:0"], [], []), errors.InvalidArgumentError, "at least one target"),
        ((["x:0", "x:0"], ["y:0"]), errors.InvalidArgumentError, "'x:0' is fed more than once"),
        ((["xx:0"], ["y:0"]), errors.NotFoundError, "feed 'xx' does not exist"),
        (([], ["yy:0"]), errors.NotFoundError, "fetch 'yy' does not exist: .*mean 'y'"),
        (([], ["parts:2"]), errors.NotFoundError, "'parts:2' .*has 2 outputs"),
        (([], [], ["zz"]), errors.NotFoundError, "target 'zz' does not exist: .*mean 'z'"),
        (([], ["^y"]), errors.NotFoundError, "has 1 outputs"),
        (([], [], ["_SINK"]), errors.NotFoundError, "'_SINK' does not exist"),
    ],
)
def test_s4_invalid_requests_are_refused(arguments: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        client(*arguments)


def test_s4_source_is_not_copied() -> None:
    full = graph_from_graph_def(graph_to_graph_def(FULL), OPS)
    full.connect_source_and_sink()
    assert names(client([], ["y:0"], full=full)) == {"x", "y", "_retval_y_0_0"}


def test_s4_function_args_and_retvals_are_distinct_from_feeds_and_fetches() -> None:
    """Args and retvals of functions are distinct from those of feeds and fetches."""
    full = graph_from_graph_def(
        graph_def(
            node_def("_arg_x_0_0", "_Arg", T="float32", index=0),
            node_def("x", "Placeholder", dtype="float32"),
            node_def("sum", "AddV2", "_arg_x_0_0", "x", T="float32"),
            node_def("out", "_Retval", "sum", T="float32", index=0),
        ),
        OPS,
    )
    for arguments in ((["x:0"], ["sum:0"]), (["x:0", "_arg_x_0_0:0"], [], ["out"])):
        with pytest.raises(
            errors.InvalidArgumentError, match="belongs to the graph of a function"
        ) as e:
            client(*arguments, full=full)
        assert e.value.op_type in ("_Arg", "_Retval")
    found = client(["x:0", "_arg_x_0_0:0"], ["sum:0"], full=full)
    assert inputs(found, "sum") == ["_arg__arg_x_0_0_0_1", "_arg_x_0_0"]


def test_s4_conflicting_names_get_a_suffix() -> None:
    full = graph_from_graph_def(
        graph_def(
            node_def("x", "Placeholder", dtype="float32"),
            node_def("_arg_x_0_0", "Neg", "x", T="float32"),
            node_def("_retval__arg_x_0_0_0_0", "Neg", "_arg_x_0_0", T="float32"),
        ),
        OPS,
    )
    found = client(["x:0"], ["_arg_x_0_0:0"], ["_retval__arg_x_0_0_0_0"], full=full)
    assert inputs(found, "_arg_x_0_0") == ["_arg_x_0_0_"]
    assert inputs(found, "_retval__arg_x_0_0_0_0_") == ["_arg_x_0_0"]


def test_s8_a_partial_run_sends_and_receives() -> None:
    end = ClientEnd("/job:localhost/replica:0/task:0/device:CPU:0", 77)
    found = build_client_graph(FULL, OPS, ["x:0"], ["y:0", "z:0"], [], end)
    recv = found.graph.node("_recv_x_0_0")
    send = found.graph.node("_send_z_0_1")
    assert (recv.op, send.op) == ("_Recv", "_Send")
    assert recv.attrs["tensor_name"] == b"x:0"
    assert recv.attrs["send_device_incarnation"] == send.attrs["send_device_incarnation"] == 77
    assert recv.attrs["client_terminated"] is True
    assert found.needed_feeds() == {"y:0": {"x:0"}, "z:0": {"x:0"}}


@given(graphs(OPS), st.data())
@settings(max_examples=60, deadline=None)
def test_s4_exactly_the_ancestors_up_to_the_feeds_are_kept(
    random: RandomGraph, data: st.DataObject
) -> None:
    full = graph_from_graph_def(random.graph_def, OPS)
    tensors = [f"{node.name}:{i}" for node in full for i in range(node.num_outputs)]
    feeds = data.draw(st.lists(st.sampled_from(tensors), max_size=4, unique=True))
    fetches = data.draw(st.lists(st.sampled_from(tensors), min_size=1, max_size=4))
    targets = data.draw(st.lists(st.sampled_from([node.name for node in full]), max_size=2))
    found = client(feeds, fetches, targets, full=full)
    nodes = [n for n in found.graph if n.op not in ("_Arg", "_Retval")]

    # The same by the rules, edge by edge, on the full graph.
    fed = {(full.node(name.split(":")[0]), int(name.split(":")[1])) for name in feeds}
    fed_placeholders = {node for node, _ in fed if node.op == "Placeholder"}
    expected = {full.node(t) for t in targets}
    expected |= {
        full.node(f.split(":")[0])
        for f in fetches
        if (full.node(f.split(":")[0]), int(f.split(":")[1])) not in fed
    }
    while True:
        grown = expected | {
            edge.src
            for node in expected
            for edge in node.in_edges
            if (edge.src, edge.src_output) not in fed
        }
        grown |= {s for n in expected for s in n.control_inputs if s not in fed_placeholders}
        if grown == expected:
            break
        expected = grown
    assert {node.name for node in nodes} == {node.name for node in expected}
    ends = [node for node in found.graph if node.op == "_Retval"]
    assert len(ends) == len(fetches)
    roots = [*ends, *(found.graph.node(t) for t in targets)]
    unused = [node for node in found.graph if node not in ancestors(roots)]
    assert all(node.op == "_Arg" for node in unused)


def test_s4_a_constant_may_be_fed() -> None:
    full = graph_from_graph_def(
        graph_def(const_def("c", 1.0), node_def("y", "Neg", "c", T="float32")), OPS
    )
    assert names(client(["c:0"], ["y:0"], full=full)) == {"_arg_c_0_0", "y", "_retval_y_0_0"}


def loop_graph() -> Graph:
    """`exit` counts from `x` to 3 through the loop `count`."""
    frame = {"frame_name": b"count", "parallel_iterations": 10}
    message = graph_def(
        node_def("x", "Placeholder", dtype="float32"),
        const_def("three", np.float32(3)),
        node_def("enter", "Enter", "x", T="float32", **frame),
        node_def("limit", "Enter", "three", T="float32", is_constant=True, **frame),
        node_def("merge", "Merge", "enter", "next", T="float32", N=2),
        node_def("less", "Less", "merge", "limit", T="float32"),
        node_def("cond", "LoopCond", "less"),
        node_def("switch", "Switch", "merge", "cond", T="float32"),
        node_def("body", "Neg", "switch:1", T="float32"),
        node_def("next", "NextIteration", "body", T="float32"),
        node_def("exit", "Exit", "switch", T="float32"),
        node_def("after", "Neg", "exit", T="float32"),
    )
    return graph_from_graph_def(message, OPS)


@pytest.mark.parametrize("name", ["merge", "less", "switch", "body", "next"])
def test_s6_a_tensor_of_a_loop_is_not_fetched(name: str) -> None:
    with pytest.raises(errors.InvalidValueError, match="marked as not fetchable") as caught:
        build_client_graph(loop_graph(), OPS, ["x:0"], [f"{name}:0"], [])
    assert "in the loop 'count'" in caught.value.message
    assert "RunOptions.debug_options" in caught.value.message
    assert caught.value.node == name


@pytest.mark.parametrize("name", ["enter", "limit", "merge", "less", "cond", "body", "next"])
def test_s6_a_tensor_of_a_loop_is_not_fed(name: str) -> None:
    with pytest.raises(errors.InvalidValueError, match=f"{name}:0 may not be fed") as caught:
        build_client_graph(loop_graph(), OPS, ["x:0", f"{name}:0"], ["after:0"], [])
    assert caught.value.node == name


def test_s6_loop_inputs_and_outputs_can_be_fed_and_fetched() -> None:
    graph = loop_graph()
    for feed, fetch in [("x:0", "exit:0"), ("exit:0", "after:0"), ("x:0", "enter:0")]:
        assert build_client_graph(graph, OPS, [feed], [fetch], []).fetch_types
    assert build_client_graph(graph, OPS, ["x:0"], [], ["body"]).graph.has_node("body")
