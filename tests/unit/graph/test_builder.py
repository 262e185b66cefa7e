"""Graphs built in Python: names, devices, control dependencies, colocation (clause G4)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops, proto
from graphmill.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from graphmill.graph.builder import Graph, Tensor
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.inputs.default_graph import get_default_graph

if TYPE_CHECKING:
    from graphmill.graph.node import Node


@pytest.fixture
def graph() -> Graph:
    return Graph()


# Default graph.


def test_default_graphs_nest(graph: Graph) -> None:
    other = Graph()
    with graph.as_default() as entered:
        assert entered is graph
        with other.as_default():
            assert get_default_graph() is other
        assert get_default_graph() is graph
    with pytest.raises(FailedPreconditionError):
        get_default_graph()


def test_the_default_graph_belongs_to_the_thread(graph: Graph) -> None:
    seen: list[object] = []

    def look() -> None:
        try:
            seen.append(get_default_graph())
        except FailedPreconditionError as error:
            seen.append(error)

    with graph.as_default():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert isinstance(seen[0], FailedPreconditionError)


# Names.


def test_names_are_made_unique_without_regard_to_case(graph: Graph) -> None:
    names = [graph.constant(1, name=name).name for name in ("x", "x", "X", "x_1")]
    assert names == ["x:0", "x_1:0", "X_2:0", "x_1_1:0"]


def test_name_scopes_prefix_names(graph: Graph) -> None:
    with graph.name_scope("a") as outer:
        assert outer == "a/"
        assert graph.constant(1).op.name == "a/Const"
        with graph.name_scope("b"):
            assert graph.constant(1).op.name == "a/b/Const"
            with graph.name_scope(None) as root:
                assert root == ""
                assert graph.constant(1).op.name == "Const"
    with graph.name_scope("a"):
        assert graph.constant(1).op.name == "a_1/Const"
    with graph.name_scope(outer):
        assert graph.constant(1).op.name == "a/Const_1"


def test_a_scope_and_a_node_share_names(graph: Graph) -> None:
    with graph.name_scope("a"):
        pass
    assert graph.constant(1, name="a").op.name == "a_1"


def test_unique_name_can_be_previewed(graph: Graph) -> None:
    assert graph.unique_name("x", mark_as_used=False) == "x"
    assert graph.unique_name("x") == "x"
    assert graph.unique_name("x", mark_as_used=False) == "x_1"
    assert graph.unique_name("x") == "x_1"


def test_a_full_name_is_taken_once(graph: Graph) -> None:
    with graph.name_scope("scope"):
        assert graph.create_op("NoOp", name="a/b/").name == "a/b"
        with pytest.raises(AlreadyExistsError, match="already has a node 'a/b'"):
            graph.create_op("NoOp", name="a/b/")


@pytest.mark.parametrize("name", ["_x", "a b", "ä", "x:0", "^x"])
def test_names_that_nodes_cannot_have(graph: Graph, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a valid node name"):
        graph.create_op("NoOp", name=name)
    with (
        pytest.raises(InvalidArgumentError, match="not a valid scope name"),
        graph.name_scope(name),
    ):
        pass
    assert len(graph) == 0


def test_imported_names_count_as_used(graph: Graph) -> None:
    graph.constant(1, name="x")
    copy = Graph.from_graph_def(graph.as_graph_def())
    assert copy.constant(1, name="x").op.name == "x_1"


# Devices.


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ((), ""),
        (("/gpu:0",), "/device:GPU:0"),
        (("/job:worker", "/gpu:1"), "/job:worker/device:GPU:1"),
        (("/job:a/task:1", "/job:b"), "/job:b/task:1"),
        (("/gpu:0", "/cpu:0"), "/device:CPU:0"),
        (("/gpu:0", None), ""),
        (("/gpu:0", None, "/task:1"), "/task:1"),
        (("/gpu:0", ""), "/device:GPU:0"),
        ((lambda node: "/gpu:2" if node.op == "NoOp" else "",), "/device:GPU:2"),
        (("/job:a", lambda node: "/cpu:0"), "/job:a/device:CPU:0"),
        ((lambda node: node.device + "/task:3", "/gpu:0"), "/task:3/device:GPU:0"),
    ],
)
def test_device_scopes_merge(graph: Graph, scopes: tuple[object, ...], expected: str) -> None:
    def build(rest: tuple[object, ...]) -> Node:
        if not rest:
            return graph.create_op("NoOp")
        with graph.device(rest[0]):  # type: ignore[arg-type]
            return build(rest[1:])

    assert build(scopes).device == expected


def test_wrong_devices_are_refused(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="/gpus:0"), graph.device("/gpus:0"):
        pass
    with graph.device(lambda node: 5), pytest.raises(InvalidArgumentError, match="returned 5"):  # type: ignore[arg-type, return-value]
        graph.create_op("NoOp")
    assert len(graph) == 0
    assert graph.create_op("NoOp").device == ""


# Control dependencies.


def control(node: Node) -> list[str]:
    return [other.name for other in node.control_inputs]


def test_nodes_wait_for_their_control_dependencies(graph: Graph) -> None:
    a, b = graph.create_op("NoOp", name="a"), graph.constant(1, name="b")
    with graph.control_dependencies([a]), graph.control_dependencies([b, a]):
        c = graph.create_op("NoOp", name="c")
        with graph.control_dependencies(None):
            d = graph.create_op("NoOp", name="d")
    assert control(c) == ["a", "b"]
    assert control(d) == []
    assert control(graph.create_op("NoOp")) == []


def test_transitive_control_input_needs_no_edge(graph: Graph) -> None:
    a = graph.create_op("NoOp", name="a")
    x = graph.constant(1, name="x")
    with graph.control_dependencies([a]):
        y = ops.array.identity(x)
        z = ops.array.identity(y)
    with graph.control_dependencies([x]):
        w = ops.array.identity(x)
    assert control(y.op) == ["a"]
    assert control(z.op) == []
    assert control(w.op) == []


def test_control_inputs_are_nodes_of_the_graph(graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match="neither a tensor nor a node of this graph"):
        graph.control_dependencies([Graph().constant(1)])
    with pytest.raises(InvalidArgumentError, match="'x' is neither a tensor"):
        graph.control_dependencies(["x"])  # type: ignore[list-item]


# Colocation.


def test_nodes_are_colocated(graph: Graph) -> None:
    with graph.device("/gpu:0"):
        a = graph.constant(1, name="a")
    b = graph.constant(1, name="b")
    with graph.device("/job:x"), graph.colocate_with(a):
        c = graph.constant(1, name="c")
        with graph.colocate_with(b):
            both = graph.constant(1)
        with graph.colocate_with(b.op, ignore_existing=True):
            only = graph.constant(1)
    with graph.colocate_with(c):
        follows = graph.constant(1)
    assert c.op.attrs["_class"] == (b"loc:@a",)
    assert c.device == "/device:GPU:0"
    assert both.op.attrs["_class"] == (b"loc:@a", b"loc:@b")
    assert only.op.attrs["_class"] == (b"loc:@b",)
    assert follows.op.attrs["_class"] == (b"loc:@a",)
    assert "_class" not in graph.constant(1).op.attrs


# Nodes.


def test_create_op_infers_attrs(graph: Graph) -> None:
    x = graph.placeholder("float32", [None, 3], name="x")
    node = graph.create_op("AddN", [x, x], name="sum")
    assert node.attrs == {"N": 2, "T": dtypes.float32}
    assert [t.name for t in graph.outputs_of(node)] == ["sum:0"]


def test_create_op_takes_attrs_in_any_form(graph: Graph) -> None:
    node = graph.create_op("VariableV2", attrs={"dtype": "float32", "shape": [2, None]})
    assert node.attrs["shape"] == (2, -1)
    assert node.output_types == (dtypes.float32.as_ref,)


def test_create_op_of_a_definition(graph: Graph) -> None:
    twice = OpDef("Mine>Twice", (ArgDef("x", dtypes.int32),), (ArgDef("y", dtypes.int32),))
    node = graph.create_op(twice, [graph.constant(1)])
    assert node.name == "Mine_Twice"


def test_create_op_of_a_function(graph: Graph) -> None:
    function = proto.FunctionDef()
    function.signature.CopyFrom(OpDef("half", (ArgDef("x", dtypes.int32),)).to_proto())
    graph.library.add(function)
    assert graph.create_op("half", [graph.constant(1)]).op == "half"


def test_wrong_nodes_are_not_added(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    before = len(graph)
    with pytest.raises(NotFoundError, match="did you mean 'Add"):
        graph.create_op("Addd", [x])
    with pytest.raises(InvalidArgumentError, match="1 inputs do not fit op AddV2"):
        graph.create_op("AddV2", [x])
    with pytest.raises(InvalidArgumentError, match=r"is a int.*graph\.constant"):
        graph.create_op("AddV2", [x, 1])
    with pytest.raises(InvalidArgumentError, match="of another graph"):
        graph.create_op("Identity", [Graph().constant(1)])
    with pytest.raises(NotFoundError, match="no attr 'k'"):
        graph.create_op("Identity", [x], {"k": 1})
    with pytest.raises(InvalidArgumentError, match="'dtype'"):
        graph.create_op("Placeholder")
    assert len(graph) == before


def test_constants_have_type_and_shape(graph: Graph) -> None:
    assert graph.constant([1, 2]).dtype is dtypes.int32
    filled = graph.constant(1.5, "float64", [2, 2], name="c").op.attrs["value"].numpy()
    assert filled.tolist() == [[1.5, 1.5], [1.5, 1.5]]
    message = TensorAttr(np.array([1, 2])).to_proto()
    assert graph.constant(message).op.attrs["value"].to_proto() is message
    assert graph.constant(message, dtypes.int8).dtype is dtypes.int8
    with pytest.raises(InvalidArgumentError, match="cannot fill shape"):
        graph.constant([1, 2], shape=[3])


def test_a_constant_does_not_change_with_the_callers_array(graph: Graph) -> None:
    array = np.array([1, 2])
    constant = graph.constant(array)
    array[0] = 7
    assert constant.op.attrs["value"].numpy().tolist() == [1, 2]


def test_values_are_converted_and_foreign_tensors_refused(graph: Graph) -> None:
    x = graph.constant(1)
    assert graph.convert(x) is x
    assert graph.convert(2, "float32").dtype is dtypes.float32
    with pytest.raises(InvalidArgumentError, match="is of int32, expected float32"):
        graph.convert(x, "float32")
    with pytest.raises(InvalidArgumentError, match="does not belong to this graph"):
        graph.convert(Graph().constant(1))


# Look-up and export.


def test_tensors_and_operations_are_found_by_name(graph: Graph) -> None:
    x = graph.placeholder("float32", name="dense/x")
    assert graph.get_tensor_by_name("dense/x:0") == x
    assert graph.get_operation_by_name("dense/x") is x.op
    assert graph.get_operations() == [x.op]


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("dense/x", InvalidArgumentError, "did you mean 'dense/x:0'"),
        ("^dense/x", InvalidArgumentError, "expected 'node:0'"),
        ("dense/x:a", InvalidArgumentError, "expected"),
        ("dense/x:1", NotFoundError, "has 1 outputs"),
        ("dense/y:0", NotFoundError, "did you mean 'dense/x'"),
    ],
)
def test_names_of_no_tensor_are_refused(
    graph: Graph, name: str, error: type[Exception], message: str
) -> None:
    graph.placeholder("float32", name="dense/x")
    with pytest.raises(error, match=message):
        graph.get_tensor_by_name(name)


def test_export_and_import_give_the_same_graph(graph: Graph) -> None:
    """A built graph is unchanged by export and import (clause G1)."""
    with graph.as_default(), graph.device("/cpu:0"):
        x = graph.placeholder("float32", [None, 3], name="x")
        with graph.control_dependencies([x]):
            ops.math.mat_mul(x[:, :2], np.ones((2, 2), np.float32))
    message = graph.as_graph_def()
    assert Graph.from_graph_def(message).as_graph_def() == message
    assert message.versions.producer == graph.versions.producer


# Tensors.


def test_tensors_are_keys(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    assert {x: 1}[graph.get_tensor_by_name("x:0")] == 1
    assert x != graph.placeholder("float32")
    assert x != "x:0"


def test_tensor_lists_its_consumers(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    y = x * x
    assert x.consumers() == [y.op]
    with pytest.raises(InvalidArgumentError, match="no output 1"):
        Tensor(x.op, 1)


def test_a_tensor_has_no_value_yet(graph: Graph) -> None:
    x = graph.placeholder("float32", name="x")
    for use in (bool, iter, len, np.asarray):
        with pytest.raises(TypeError, match="has no value before a session runs it"):
            use(x)  # type: ignore[arg-type, operator]


@pytest.mark.parametrize("name", ["g.pb", "new/g.pbtxt"])
def test_graph_is_written_to_a_file_that_sessions_read(tmp_path: Path, name: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(np.float32(2), name="two")
    path = graph.write(tmp_path / name)
    assert Path(path).read_bytes().startswith(b"node {") is name.endswith(".pbtxt")
    with graphmill.Session(graph=path) as session:
        assert session.run("two:0") == 2


def test_graph_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(errors.OpError, match="folder"):
        graphmill.Graph().write(tmp_path / "folder")


@pytest.mark.parametrize(
    ("value", "advice"),
    [
        (b"", "GraphDef.FromString"),
        ("graph.pb", r"Session\(graph='graph.pb'\)"),
        (proto.MetaGraphDef(), "train.import_meta_graph"),
        (None, "pass a graphmill.proto.GraphDef"),
    ],
)
def test_from_graph_def_advises_how_to_read_other_values(value: Any, advice: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=advice):
        graphmill.Graph.from_graph_def(value)


# Text for people.


def test_graphs_and_tensors_describe_themselves(graph: Graph) -> None:
    x = graph.placeholder("float32", [None, 3], name="x")
    with graph.as_default():
        w = graphmill.Variable(1.0, name="w")
    assert repr(x) == "<Tensor 'x:0' shape=(None, 3) dtype=float32>"
    assert repr(w) == "<Variable 'w:0' shape=() dtype=float32>"
    assert repr(graph) == f"<Graph of {len(graph.nodes)} nodes>"


def test_a_tensor_of_an_invalid_node_describes_itself() -> None:
    node = proto.NodeDef(name="y", op="MatMul", input=["x", "x"])
    node.attr["T"].type = dtypes.float32.enum  # type: ignore[assignment]
    graph_def = proto.GraphDef(node=[proto.NodeDef(name="x", op="Placeholder"), node])
    graph_def.node[0].attr["dtype"].type = dtypes.float32.enum  # type: ignore[assignment]
    graph_def.node[0].attr["shape"].shape.dim.add(size=3)
    y = Graph.from_graph_def(graph_def).get_tensor_by_name("y:0")
    assert repr(y) == "<Tensor 'y:0' shape=<invalid> dtype=float32>"


def test_operands_of_different_types_get_advice(graph: Graph) -> None:
    x, n = graph.placeholder("float32"), graph.placeholder("int32")
    with pytest.raises(InvalidArgumentError, match=r"as in graphmill\.functions\.cast\(x, 'int32'"):
        _ = x + n


def test_message_has_the_nodes_since_a_version_with_their_shapes() -> None:
    graph = Graph()
    graph.placeholder("float32", [None, 2], name="x")
    version = graph.version
    graph.placeholder("float32", None, name="y")
    assert (version, graph.version) == (1, 2)
    assert [node.name for node in graph.as_graph_def(version).node] == ["y"]
    x, y = graph.as_graph_def(add_shapes=True).node
    (shape,) = x.attr["_output_shapes"].list.shape
    assert [dim.size for dim in shape.dim] == [-1, 2]
    assert y.attr["_output_shapes"].list.shape[0].unknown_rank
    assert "_output_shapes" not in graph.as_graph_def().node[0].attr
    assert graph.graph_def_versions == graph.as_graph_def().versions


def test_element_is_found_by_name_or_is_given() -> None:
    graph = Graph()
    x = graph.placeholder("float32", name="x")
    assert graph.as_graph_element("x:0") == graph.as_graph_element(x) == x
    assert graph.as_graph_element("x") is x.op
    with pytest.raises(ValueError, match="'x' is a Node, which is not allowed"):
        graph.as_graph_element("x", allow_operation=False)
    with pytest.raises(TypeError, match="is neither a tensor nor a node of this graph"):
        Graph().as_graph_element(x)
    with graph.name_scope("a"), graph.name_scope("b"):
        assert graph.get_name_scope() == "a/b"


def test_finalized_graph_takes_no_node() -> None:
    graph = Graph()
    x = graph.placeholder("float32", name="x")
    assert not graph.finalized
    graph.finalize()
    assert graph.finalized
    with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified: node 'y'"):
        graph.constant(1.0, name="y")
    assert graph.get_operations() == [x.op]
