"""Graphs, tensors, operations and sessions have the public names of `tf.compat.v1`."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy

pytestmark = pytest.mark.oracle

ABSENT = {
    "Graph": {
        *("Dismantle", "get", "new_operations", "num_operations", "operations"),
        "switch_to_thread_local",
    },
    "Tensor": {"OVERLOADABLE_OPERATORS", "experimental_ref"},
    "Operation": {"experimental_set_type", "from_node_def"},
    "Session": set(),
    "InteractiveSession": set(),
}
"""Names that graphmill lacks: see "Python API" in docs/explanation/differences.md."""


def public(value: Any) -> set[str]:
    return {name for name in dir(value) if not name.startswith("_")}


def objects(api: Any, graph: Any) -> dict[str, Any]:
    placeholder = getattr(api, "placeholder", None) or graph.placeholder
    with graph.as_default():
        tensor = placeholder("float32", [2])
    classes = {name: getattr(api, name) for name in ("Session", "InteractiveSession")}
    return {"Graph": graph, "Tensor": tensor, "Operation": tensor.op, **classes}


def test_no_public_name_is_missing(tf):
    api = tf.compat.v1
    theirs = objects(api, api.Graph())
    ours = objects(graphmill, graphmill.Graph())
    missing = {kind: public(theirs[kind]) - public(ours[kind]) for kind in ABSENT}
    assert missing == ABSENT


def test_op_def_for_type_is_tensorflows(tf):
    their_graph, our_graph = tf.Graph(), graphmill.Graph()
    names = [name for name in our_graph.ops.names() if name in tf.raw_ops.__dict__]
    assert len(names) > 1000
    graphs = (their_graph, our_graph)
    wrong = []
    for name in names:
        theirs, ours = (signature(graph.op_def_for_type(name)) for graph in graphs)
        if theirs != ours:
            wrong.append(name)
    assert wrong == []


def signature(op_def: Any) -> proto.OpDef:
    """Return an op's definition without deprecation and full types, which graphmill does not keep.

    A tensor that is a default is written in one way.
    """
    message = proto.OpDef.FromString(op_def.SerializeToString())
    message.ClearField("deprecation")
    for arg in message.output_arg:
        arg.ClearField("experimental_full_type")
    for attr in message.attr:
        if attr.default_value.HasField("tensor"):
            value = tensor_proto_to_numpy(attr.default_value.tensor)
            attr.default_value.tensor.CopyFrom(numpy_to_tensor_proto(value))
    return message


SHAPES = ([None, 3], [2, None], [2, 4], [2], 7, "a", None, [-1, 3], [-2, 3], (2, 3), [])


def refusal(call: Any) -> str | None:
    """Return the builtin class of the exception that a call raises."""
    try:
        call()
    except (TypeError, ValueError) as error:
        return "TypeError" if not isinstance(error, ValueError) else "ValueError"
    return None


def declared_shapes(graph: Any, placeholder: Any, identity: Any) -> list[Any]:
    """Declare shapes one after the other; return each shape of the tensor and of two readers."""
    found = []
    for first in (None, [None, 3], [2, 3]):
        with graph.as_default():
            x = placeholder("float32", first)
            before = identity(x)
            for shape in SHAPES:
                is_refused = refusal(lambda x=x, shape=shape: x.set_shape(shape)) is not None
                shapes = [one.shape for one in (x, before, identity(x))]
                found.append(
                    (is_refused, [None if s.rank is None else tuple(s.as_list()) for s in shapes])
                )
    return found


def test_set_shape_declares_what_tensorflows_does(tf):
    theirs = declared_shapes(tf.Graph(), tf.compat.v1.placeholder, tf.identity)
    graph = graphmill.Graph()
    ours = declared_shapes(graph, graph.placeholder, graphmill.ops.array.identity)
    assert ours == theirs


def collections(graph: Any) -> list[Any]:
    found = [graph.collections]
    graph.add_to_collection("a", 1)
    graph.get_collection_ref("empty")
    graph.add_to_collections(["b", "a"], 2)
    found += [graph.collections, graph.get_all_collection_keys()]
    graph.clear_collection("a")
    return [*found, graph.collections, graph.building_function, graph.seed]


def groups(graph: Any, constant: Any) -> list[Any]:
    with graph.as_default():
        a, other = constant(1.0, name="a").op, constant(1.0, name="other").op
        with graph.colocate_with(a):
            b = constant(2.0, name="b").op
        with graph.colocate_with(other), graph.colocate_with(b):
            c = constant(2.0, name="c").op
    return [node.colocation_groups() for node in (a, b, c)]


def test_collections_are_listed_as_in_tensorflow(tf):
    assert collections(graphmill.Graph()) == collections(tf.Graph())


def test_colocation_groups_are_tensorflows(tf):
    graph = graphmill.Graph()
    assert groups(graph, graph.constant) == groups(tf.Graph(), tf.constant)


def test_the_line_of_an_operation_is_in_tensorflows_traceback(tf):
    graph = graphmill.Graph()
    with graph.as_default(), tf.Graph().as_default():
        ours, theirs = graph.constant(1.0).op, tf.constant(1.0).op
    (frame,) = ours.traceback
    assert (frame.filename, frame.lineno) in {
        (one.filename, one.lineno) for one in theirs.traceback
    }
