"""`error.op` and `error.node_def` are TensorFlow's."""

from __future__ import annotations

import math
from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def

pytestmark = pytest.mark.oracle

FLOAT = ["float32"]
X = node_def("x", "Placeholder", dtype="float32", shape=None)
CHECK = node_def("check", "CheckNumerics", "x", T="float32", message=b"bad", device="/device:CPU:0")
INNER = node_def("inner", "CheckNumerics", "a", T="float32", message=b"bad")
FUNCTION = function_def("f", {"a": "float32"}, {"r": ("float32", "inner:output:0")}, INNER)
GRAPH = graph_def(
    X,
    CHECK,
    node_def("out", "Neg", "check", T="float32"),
    node_def("call", "PartitionedCall", "x", Tin=FLOAT, Tout=FLOAT, f=FuncAttr("f", {})),
    node_def("divided", "Assert", "no", "x", T=FLOAT),
    const_def("no", False),
    node_def("queue", "FIFOQueueV2", component_types=FLOAT),
    node_def("got", "QueueDequeueV2", "queue", component_types=FLOAT),
    node_def("v", "VarHandleOp", dtype="float32", shape=None, shared_name=b"v"),
    node_def("read", "ReadVariableOp", "v", dtype="float32"),
    functions=[FUNCTION],
)
SAME = {
    "kernel": ("out:0", {"x:0": math.inf}),
    "target": ("divided", {"x:0": 1.0}),
    "missing feed": ("out:0", {}),
    "variable": ("read:0", {}),
}
DIFFERENT = {
    "function": (("call:0", {"x:0": math.inf}), "call"),
    "timeout": (("got:0", {}), "got"),
}


@pytest.fixture
def tf1(tf: Any) -> Any:
    return tf.compat.v1


def tensorflows(tf1: Any, fetch: str, feeds: Any) -> Any:
    message = tf1.GraphDef.FromString(GRAPH.SerializeToString())
    with tf1.Graph().as_default() as graph:
        tf1.import_graph_def(message, name="")
        with tf1.Session(graph=graph) as session:
            fetches = graph.as_graph_element(fetch)
            try:
                session.run(fetches, feeds, tf1.RunOptions(timeout_in_ms=200))
            except tf1.errors.OpError as error:
                return error
    raise AssertionError(f"{fetch} did not fail")


def ours(fetch: str, feeds: Any) -> errors.OpError:
    graph = graphmill.Graph.from_graph_def(GRAPH)
    options = graphmill.proto.RunOptions(timeout_in_ms=200)
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.OpError) as caught:
        session.run(fetch, feeds, options)
    assert caught.value.op is graph.get_operation_by_name(caught.value.op.name)  # type: ignore[union-attr]
    return caught.value


@pytest.mark.parametrize("case", SAME)
def test_operation_is_tensorflows(tf1: Any, case: str) -> None:
    theirs, error = tensorflows(tf1, *SAME[case]), ours(*SAME[case])
    assert error.op is not None
    assert (error.op.name, error.op.type) == (theirs.op.name, theirs.op.type)
    assert error.op_type == theirs.op.type
    assert error.node_def.name == theirs.node_def.name
    assert error.node_def.device == theirs.node_def.device
    assert list(error.node_def.input) == list(theirs.node_def.input)
    assert set(error.node_def.attr) == set(theirs.node_def.attr)


@pytest.mark.parametrize("case", DIFFERENT)
def test_operation_is_known_where_tensorflow_has_none(tf1: Any, case: str) -> None:
    call, name = DIFFERENT[case]
    assert tensorflows(tf1, *call).op is None
    error = ours(*call)
    assert error.op is not None
    assert error.op.name == name
