"""The builder adds the same nodes as `tf.compat.v1`: names, inputs, attrs, devices (clause G4)."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill import proto
from graphmill.errors import OpError
from graphmill.graph.builder import Graph
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.attrs.attr_value import attrs_from_proto
from graphmill.ops.definition.names import function_name
from graphmill.ops.definition.op_registry import bundled_ops
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy

pytestmark = pytest.mark.oracle


def operators(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build operators, for the names of nodes and of constants from operands."""
    for y in (x + 1, 2 * x, x - x, 1.5 / x, x // 2.0, x % 2, x**2, -x, abs(x)):
        del y
    i / 2, 3 / i, i // 2, 2**i, x < 1, x >= x, b & True, ~b, i & 3, i | i


def slices(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build slices, for StridedSlice nodes with their vectors and masks."""
    x[0], x[-1], x[1:, ..., None, ::-1], x[:, 2], x[i], x[::2][1]


def name_scopes(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build nested, repeated and re-entered name scopes."""
    with g.name_scope("a") as scope:
        x + 1
        with g.name_scope("b"):
            x + 1
            with g.name_scope(None):
                x + 1
    with g.name_scope("A"):
        x + 1
    with g.name_scope(scope):
        x + 1


def devices(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build device scopes of strings, functions and None."""
    with g.device("/job:worker/task:1"):
        with g.device("/gpu:0"):
            x + 1
            with g.device(None):
                x + 1
        with g.device(lambda node: "/cpu:0" if node.type == "Mul" else ""):
            x * 2
        with g.device("/job:ps"):
            x + 1


def control(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build control dependencies, pruned if an input already waits."""
    with g.control_dependencies([x, i]):
        y = x + 1
        y * y
        with g.control_dependencies([y.op]):
            x * 2
        with g.control_dependencies(None):
            x * 3


def colocation(g: Any, x: Any, i: Any, b: Any) -> None:
    """Build colocation groups and their devices."""
    with g.device("/gpu:1"):
        y = x + 1
    with g.device("/cpu:0"), g.colocate_with(y.op):
        z = x * 2
        with g.colocate_with(x.op):
            x * 3
    with g.colocate_with(z.op):
        x * 4


@pytest.mark.parametrize(
    "build",
    [operators, slices, name_scopes, devices, control, colocation],
    ids=lambda f: f.__name__,
)
def test_both_builders_add_the_same_nodes(tf: Any, build: Any) -> None:
    theirs = tf.Graph()
    with theirs.as_default():
        build(
            theirs,
            tf.compat.v1.placeholder("float32", [None, None, 4], name="x"),
            tf.compat.v1.placeholder("int32", [], name="i"),
            tf.compat.v1.placeholder("bool", [], name="b"),
        )
    ours = Graph()
    with ours.as_default():
        build(
            ours,
            ours.placeholder("float32", [None, None, 4], name="x"),
            ours.placeholder("int32", [], name="i"),
            ours.placeholder("bool", [], name="b"),
        )
    message = proto.GraphDef.FromString(theirs.as_graph_def().SerializeToString())
    expected, found = by_name(message), by_name(ours.as_graph_def())
    assert list(found) == list(expected)
    for name, node in expected.items():
        assert found[name] == node


def by_name(graph_def: Any) -> dict[str, Any]:
    nodes = {}
    for node in graph_def.node:
        attrs = attrs_from_proto(node.attr)
        attrs.pop("_has_manual_control_dependencies", None)  # a hint for TensorFlow's own tools
        data = [name for name in node.input if not name.startswith("^")]
        control = {name for name in node.input if name.startswith("^")}
        nodes[node.name] = (node.op, data, control, node.device, attrs)
    return nodes


def test_functions_have_tensorflows_names(tf: Any) -> None:
    root = Path(tf.__file__).parent
    theirs: set[str] = set()
    for path in root.glob("python/**/gen_*_ops*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        theirs.update(vars(importlib.import_module(".".join(parts))))
    public = [name for name in dir(tf.raw_ops) if bundled_ops().get(name) is not None]
    missing = [
        name
        for name in public
        # Names that Python reserves have their underscore in front there.
        if not {function_name(name), "_" + function_name(name).rstrip("_")} & theirs
    ]
    assert [name for name in missing if name != "Fact"] == []  # of an example, without a module
    assert len(public) > 1000


@pytest.mark.parametrize(
    "value", [1, 2**40, 1.5, True, 1j, "a", [[1, 2]], [1.5, 2], [b"a\0", "b"], []]
)
def test_value_dtypes_match_tensorflow(tf: Any, value: Any) -> None:
    with tf.Graph().as_default():
        theirs = tf.constant(value)
    ours = Graph().constant(value)
    assert ours.dtype.enum == theirs.dtype.as_datatype_enum
    expected = TensorAttr(proto.TensorProto.FromString(content(theirs)))
    assert ours.op.attrs["value"] == expected


def content(constant: Any) -> bytes:
    data: bytes = constant.op.get_attr("value").SerializeToString()
    return data


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "float16", "bfloat16", "int8", "uint16", "int64", "bool", "complex64"],
)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
def test_tensor_messages_mean_the_same(tf: Any, dtype: str, shape: tuple[int, ...]) -> None:
    numpy_dtype = tf.as_dtype(dtype).as_numpy_dtype
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(numpy_dtype)
    theirs = tf.make_tensor_proto(array)
    again = tensor_proto_to_numpy(proto.TensorProto.FromString(theirs.SerializeToString()))
    assert again.dtype == array.dtype
    assert again.tobytes() == array.tobytes()
    ours = numpy_to_tensor_proto(array)
    back = type(theirs).FromString(ours.SerializeToString())
    assert tf.make_ndarray(back).tobytes() == array.tobytes()


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("Conv2D", {"strides": [1, 1, 1, 1], "padding": "SAM"}),
        ("Conv2D", {"padding": "SAME"}),
        ("Conv2D", {"strides": 1, "padding": "SAME"}),
        ("MaxPool", {"ksize": [1], "strides": [1, 1, 1, 1], "padding": "SAME"}),
        ("NoSuchOp", {}),
        ("Identity", {"unknown": 1}),
    ],
)
def test_inputs_refused_by_tensorflow_are_refused(tf: Any, op: str, attrs: dict[str, Any]) -> None:
    count = {"Conv2D": 2}.get(op, 1)
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder("float32", [1, 4, 4, 1])
        with pytest.raises(Exception):  # noqa: B017 - of many classes, or none of ours
            getattr(tf.raw_ops, op)(
                **dict(zip(["input", "filter"], [x] * count, strict=False)), **attrs
            )
    graph = Graph()
    x = graph.placeholder("float32", [1, 4, 4, 1])
    with pytest.raises(OpError):
        graph.create_op(op, [x] * count, attrs)
