"""GraphDefs round-trip through graphs, and bad ones are refused (clauses G1, G3, S3)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings

from graphmill import dtypes, errors, proto
from graphmill.graph.formats.import_export import (
    extend_graph,
    graph_from_graph_def,
    graph_to_graph_def,
    node_to_node_def,
)
from graphmill.graph.graph import PRODUCER_VERSION, Graph
from graphmill.ops.attrs.attr_types import AttrPlaceholder
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.generators.dataflow_graphs import RandomGraph, graphs
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

if TYPE_CHECKING:
    from collections.abc import Sequence

OPS = OpRegistry()
X = node_def("x", "Placeholder", dtype="float32", shape=None)
ADD_ONE = function_def(
    "AddOne",
    {"x": "float32"},
    {"y": ("float32", "sum:z:0")},
    const_def("one", 1.0),
    node_def("sum", "AddV2", "x", "one:output:0", T="float32"),
)


def identity(name: str, src: str, **attrs: Any) -> Any:
    return node_def(name, "Identity", src, **{"T": "float32", **attrs})


# ------------------------------------------------------------------------------------ round trip


@given(graphs(OPS))
@settings(max_examples=40, deadline=None)
def test_random_graphs_round_trip(random: RandomGraph) -> None:
    """Random GraphDefs survive import and export without loss (clause G1)."""
    message = graph_to_graph_def(graph_from_graph_def(random.graph_def, OPS))
    for node in random.graph_def.node:
        node.input[:] = [name.removesuffix(":0") for name in node.input]
    assert list(message.node) == list(random.graph_def.node)
    again = graph_to_graph_def(graph_from_graph_def(message, OPS))
    assert again.SerializeToString(deterministic=True) == message.SerializeToString(
        deterministic=True
    )


def test_node_proto_round_trips() -> None:
    """A NodeDef with all of its parts survives import and export (clause G1)."""
    node = identity("y", "x", device="/job:worker/cpu:1", _class=[b"loc:@x"], _note=7)
    node.input.append("^c")
    node.experimental_debug_info.original_node_names.append("was_y")
    node.experimental_type.type_id = 1
    split = node_def("s", "Split", "axis", "x", T="float32", num_split=2)
    message = graph_def(X, const_def("axis", 0), split, const_def("c", 1.0), node)
    message.node.append(identity("z", "s:1"))
    assert list(graph_to_graph_def(graph_from_graph_def(message, OPS)).node) == list(message.node)


def test_versions_and_library_round_trip() -> None:
    """The versions and the function library survive import and export (clause G1)."""
    message = graph_def(X, functions=[ADD_ONE], producer=21)
    message.versions.min_consumer = 12
    message.versions.bad_consumers.extend([13, 14])
    message.library.gradient.add(function_name="AddOne", gradient_func="AddOneGrad")
    assert graph_to_graph_def(graph_from_graph_def(message, OPS)) == message


def test_defaults_are_filled_in() -> None:
    """Import adds the defaults of missing attrs (clause S3)."""
    message = graph_def(node_def("x", "Placeholder", dtype="float32"))
    node = graph_from_graph_def(message, OPS).node("x")
    assert node.attrs == {"dtype": dtypes.float32, "shape": None}


def test_edges_may_point_forwards() -> None:
    """A node may read nodes that follow it in the GraphDef (clause G1)."""
    graph = graph_from_graph_def(graph_def(identity("y", "x"), X), OPS)
    assert graph.node("y").sources == [(graph.node("x"), 0)]


def test_the_assigned_device_is_written_where_there_is_one() -> None:
    """Export writes the assigned device of a node if it has one (clause G1)."""
    node = graph_from_graph_def(graph_def(X), OPS).node("x")
    node.assigned_device = "/job:localhost/replica:0/task:0/device:CPU:0"
    assert node_to_node_def(node).device == node.assigned_device


def test_the_edge_from_source_is_not_written() -> None:
    """Export omits the edges from `_SOURCE` (clause G1)."""
    graph = graph_from_graph_def(graph_def(X), OPS)
    graph.connect_source_and_sink()
    assert list(graph_to_graph_def(graph).node[0].input) == []


def test_some_nodes_can_be_written_alone() -> None:
    """Export can be limited to some nodes (clause G1)."""
    graph = graph_from_graph_def(graph_def(X, identity("y", "x")), OPS)
    assert [n.name for n in graph_to_graph_def(graph, [graph.node("y")]).node] == ["y"]


def test_node_may_call_library_function_by_name() -> None:
    """The op of a node may be a function of the library (clause E10)."""
    message = graph_def(X, node_def("y", "AddOne", "x"), functions=[ADD_ONE])
    graph = graph_from_graph_def(message, OPS)
    assert graph.node("y").output_types == (dtypes.float32,)


def test_detached_tensor_contents_are_restored() -> None:
    """Tensor contents that were cut out are restored, as in graphs over 2 GB (clause G2)."""
    large = np.arange(6, dtype=np.float32)
    message = graph_def(node_def("c", "Const", dtype="float32", value=np.zeros(0, np.float32)))
    graph = graph_from_graph_def(message, OPS, {("", "c", "value"): large})
    assert graph.node("c").get_attr("value").numpy() is large


def test_unknown_attrs_are_preserved_without_effect(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Unknown attrs, as a newer TensorFlow may write, are preserved without effect (clause G3)."""
    message = graph_def(X, identity("y", "x", novelty=3))
    with caplog.at_level(logging.WARNING, "graphmill.graph"):
        graph = graph_from_graph_def(message, OPS)
    assert "'y': op Identity does not know the attrs 'novelty'" in caplog.text
    assert graph_to_graph_def(graph).node[1].attr["novelty"].i == 3


# --------------------------------------------------------------------------------------- refused

_CYCLE = [identity("a", "b"), identity("b", "a")]
_ADD = node_def("y", "AddV2", "x", "^x", "x", T="float32")
_NO_RANK = proto.AttrValue(tensor={"dtype": "DT_FLOAT", "tensor_shape": {"unknown_rank": True}})

BAD: dict[str, tuple[Sequence[Any], type[errors.OpError], str]] = {
    "unknown op": ([node_def("y", "Identiti")], errors.NotFoundError, "mean 'Identity'"),
    "missing input": ([X, identity("y", "xx")], errors.InvalidArgumentError, "input node 'xx'"),
    "malformed input": ([X, identity("y", "x:a")], errors.InvalidArgumentError, "'x:a' is not a"),
    "missing output": ([X, identity("y", "x:1")], errors.InvalidArgumentError, "output 1 of node"),
    "missing control input": ([X, identity("y", "^x:0")], errors.InvalidArgumentError, "'^x:0'"),
    "empty input": ([identity("y", "")], errors.InvalidArgumentError, "Unknown input node ''"),
    "duplicate name": ([X, X], errors.InvalidArgumentError, "'x' is not unique"),
    "no name": ([identity("", "x")], errors.InvalidArgumentError, "has no name"),
    "reserved name": ([node_def("_SINK", "NoOp")], errors.InvalidArgumentError, "not unique"),
    "cycle": (_CYCLE, errors.InvalidArgumentError, "a -> b -> a"),
    "self cycle": ([identity("a", "a")], errors.InvalidArgumentError, "a -> a"),
    "wrong dtype": ([X, identity("y", "x", T="int32")], errors.InvalidArgumentError, "int32"),
    "too few inputs": (
        [node_def("y", "Neg", T="float32")],
        errors.InvalidArgumentError,
        "0 inputs",
    ),
    "too many inputs": (
        [X, node_def("y", "Neg", "x", "x", T="float32")],
        errors.InvalidArgumentError,
        "2 inputs",
    ),
    "control before data": ([X, _ADD], errors.InvalidArgumentError, "control inputs come last"),
    "missing attr": ([X, node_def("y", "Neg", "x")], errors.InvalidArgumentError, "'T'"),
    "wrong attr type": ([X, identity("y", "x", T=1)], errors.InvalidArgumentError, "'T'"),
    "attr value not allowed": (
        [node_def("s", "Placeholder", dtype="string"), node_def("y", "Neg", "s", T="string")],
        errors.InvalidArgumentError,
        "string is not one of",
    ),
    "placeholder of a function": (
        [node_def("y", "Unpack", "old", T="float32", num=AttrPlaceholder("N"))],
        errors.InvalidArgumentError,
        "'N'",
    ),
    "unbound attr": (
        [node_def("y", "Placeholder", dtype="float32", shape=AttrPlaceholder("S"))],
        errors.InvalidArgumentError,
        "attr 'shape' of op Placeholder is the placeholder 'S'",
    ),
    "attr below its minimum": (
        [X, node_def("y", "Pack", T="float32", N=0)],
        errors.InvalidArgumentError,
        "at least 1",
    ),
    "tensor without a shape": (
        [node_def("c", "Const", dtype="float32", value=_NO_RANK)],
        errors.InvalidArgumentError,
        "value",
    ),
}


@pytest.fixture
def graph() -> Graph:
    """A non-empty graph, which a refused extension must not change."""
    return graph_from_graph_def(graph_def(const_def("old", 2.0), functions=[ADD_ONE]), OPS)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_graph_def_is_refused_and_the_graph_unchanged(name: str, graph: Graph) -> None:
    """An invalid GraphDef is refused and leaves the graph unchanged (clauses S3, S12)."""
    nodes, error, words = BAD[name]
    before = graph_to_graph_def(graph)
    used = function_def("New", {}, {})
    with pytest.raises(error) as e:
        extend_graph(graph, graph_def(identity("fine", "old"), *nodes, functions=[used]), OPS)
    assert words in e.value.message
    assert e.value.node == nodes[-1].name or e.value.node in e.value.message
    assert graph_to_graph_def(graph) == before
    assert graph.num_node_ids == 3
    assert graph.node("old").out_edges == []


def test_the_error_has_the_node_def() -> None:
    """The error of an invalid node has its `NodeDef` (clause S12)."""
    with pytest.raises(errors.InvalidArgumentError) as e:
        graph_from_graph_def(graph_def(identity("y", "gone")), OPS)
    assert e.value.node_def == identity("y", "gone")
    assert "[[{{node y}}]] (op Identity)" in str(e.value)


@pytest.mark.parametrize("name", ["a b", "a:1", "^a", "-a", "/a", "é", "a^b", "a>", ">a", "a\n"])
def test_names_that_tensorflow_refuses(name: str) -> None:
    """Node names that TensorFlow refuses are refused (clause S3)."""
    with pytest.raises(errors.InvalidArgumentError, match="contains invalid characters"):
        graph_from_graph_def(graph_def(node_def(name, "NoOp")), OPS)


@pytest.mark.parametrize("name", ["a", "_a", ".a", "A/b-c.d_0/", "a>b", "0", "a>b>c/d"])
def test_names_that_tensorflow_takes(name: str) -> None:
    """Node names that TensorFlow accepts are accepted (clause S3)."""
    assert graph_from_graph_def(graph_def(node_def(name, "NoOp")), OPS).has_node(name)


def test_extension_may_read_old_nodes_but_not_redefine_them(graph: Graph) -> None:
    """An extension may read existing nodes, but not define them again (clause S3)."""
    extend_graph(graph, graph_def(identity("y", "old")), OPS)
    assert graph.node("y").sources == [(graph.node("old"), 0)]
    with pytest.raises(errors.InvalidArgumentError, match="'y' is not unique"):
        extend_graph(graph, graph_def(identity("y", "old")), OPS)


def test_an_error_of_any_kind_leaves_the_graph_unchanged(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of any kind leaves the graph unchanged (clause S3)."""

    def interrupted(_: Graph) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("graphmill.graph.formats.import_export.topological_order", interrupted)
    before = graph_to_graph_def(graph)
    with pytest.raises(KeyboardInterrupt):
        extend_graph(
            graph, graph_def(identity("y", "old"), functions=[function_def("F", {}, {})]), OPS
        )
    assert graph_to_graph_def(graph) == before


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({"min_consumer": PRODUCER_VERSION + 1}, "needs a consumer of version"),
        ({"bad_consumers": [PRODUCER_VERSION]}, "forbids consumers of version"),
        ({"producer": -1}, "has producer version -1"),
    ],
)
def test_too_new_versions_are_refused(versions: dict[str, Any], words: str) -> None:
    """GraphDefs that require a newer consumer or forbid this one are refused (clause S3)."""
    message = proto.GraphDef(versions=versions)
    with pytest.raises(errors.InvalidArgumentError, match=words):
        graph_from_graph_def(message, OPS)


def test_the_newest_version_that_we_know_is_read() -> None:
    """A GraphDef of the newest supported version is accepted (clause S3)."""
    message = proto.GraphDef(versions={"min_consumer": PRODUCER_VERSION})
    assert len(graph_from_graph_def(message, OPS)) == 0


def test_an_op_that_was_removed_is_unimplemented() -> None:
    """An op that was removed before the GraphDef's version is unimplemented (clause S3)."""
    node = node_def("y", "BatchNormWithGlobalNormalization")
    with pytest.raises(
        errors.UnimplementedError, match="not available in GraphDef version 2000"
    ) as e:
        graph_from_graph_def(graph_def(node, producer=2000), OPS)
    assert e.value.node == "y"


def test_a_function_cannot_have_the_name_of_an_op() -> None:
    """A library function with the name of an op is refused (clause E10)."""
    message = graph_def(functions=[function_def("Identity", {}, {})])
    with pytest.raises(
        errors.InvalidArgumentError, match="an op with the same name already exists"
    ):
        graph_from_graph_def(message, OPS)


def test_a_long_chain_is_imported_and_exported() -> None:
    """Recursion depth does not depend on the size of the graph."""
    nodes = [X, *(identity(f"n{i}", f"n{i - 1}" if i else "x") for i in range(20_000))]
    graph = graph_from_graph_def(graph_def(*nodes), OPS)
    assert len(graph_to_graph_def(graph).node) == 20_001


def test_node_with_many_consumers_is_handled_in_linear_time() -> None:
    """Withdrawing many consumers of a node takes linear time (clause S3)."""
    fans = [identity(f"n{i}", "x") for i in range(10_000)]
    sink = node_def("all", "NoOp", *(f"^n{i}" for i in range(10_000)))
    graph = graph_from_graph_def(graph_def(X), OPS)
    with pytest.raises(errors.NotFoundError):
        extend_graph(graph, graph_def(*fans, sink, node_def("bad", "Bad")), OPS)
    assert graph.node("x").out_edges == []
    extend_graph(graph, graph_def(*fans, sink), OPS)
    assert len(graph.node("all").control_in_edges) == 10_000
