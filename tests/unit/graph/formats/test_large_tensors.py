"""Cut large constants and the remaining message are together the model."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors, proto
from graphmill.graph.formats.large_tensors import CutTensor, Cutter, TensorKey
from graphmill.proto.wire import length_delimited

THRESHOLD = 32


def cut(content: bytes, message: str = "GraphDef") -> tuple[Any, Cutter]:
    cutter = Cutter(content, THRESHOLD)
    rewrite = cutter.graph_def if message == "GraphDef" else cutter.meta_graph_def
    light = rewrite(0, len(content))
    return getattr(proto, message).FromString(content if light is None else light), cutter


def put_back(graph: Any, cutter: Cutter, content: bytes) -> None:
    for (function_name, name, attr), place in cutter.tensors.items():
        bodies = [f.node_def for f in graph.library.function if f.signature.name == function_name]
        nodes = [node for body in bodies or [graph.node] for node in body if node.name == name]
        tensors = [node.attr[attr].tensor for node in nodes if attr in node.attr]
        light = next(tensor for tensor in tensors if is_cut(tensor, place))
        end = place.offset + math.prod(place.shape) * place.dtype.size
        light.tensor_content = content[place.offset : end]


def is_cut(tensor: Any, place: CutTensor) -> bool:
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    return shape == place.shape and not tensor.tensor_content and tensor.dtype == place.dtype.enum


def constant(name: str, values: np.ndarray[Any, Any]) -> Any:
    node = proto.NodeDef(name=name, op="Const")
    tensor = node.attr["value"].tensor
    tensor.dtype = {"float32": 1, "int64": 9, "bool": 10, "uint8": 4}[values.dtype.name]
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = values.tobytes()
    node.attr["dtype"].type = tensor.dtype
    return node


arrays = st.builds(
    lambda dtype, shape: (np.arange(math.prod(shape)) % 2).astype(dtype).reshape(shape),
    st.sampled_from(["float32", "int64", "bool", "uint8"]),
    st.lists(st.integers(0, 7), max_size=3),
)


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    graph = proto.GraphDef()
    names = st.text("abc", min_size=1, max_size=2)
    for name in draw(st.lists(names, max_size=4, unique=True)):
        graph.node.append(constant(name, draw(arrays)))
    graph.node.add(name="n", op="NoOp", input=["a"], device="x" * draw(st.integers(0, 60)))
    for name in draw(st.lists(names, max_size=2, unique=True)):
        function = graph.library.function.add()
        function.signature.name = name
        for node in draw(st.lists(names, max_size=2, unique=True)):
            function.node_def.append(constant(node, draw(arrays)))
    graph.versions.producer = draw(st.integers(0, 2000))
    return graph


@given(graphs())
def test_light_graph_and_cut_contents_are_the_graph(graph: Any) -> None:
    content = graph.SerializeToString(deterministic=True)
    light, cutter = cut(content)
    put_back(light, cutter, content)
    assert light == graph


@given(graphs())
def test_tensors_inside_a_meta_graph_are_cut_out(graph: Any) -> None:
    meta = proto.MetaGraphDef(graph_def=graph)
    meta.meta_info_def.tags.append("serve")
    content = meta.SerializeToString(deterministic=True)
    light, cutter = cut(content, "MetaGraphDef")
    put_back(light.graph_def, cutter, content)
    assert light == meta


def test_cut_tensors_have_keys_and_places() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    graph = proto.GraphDef(node=[constant("w", values), constant("small", values[:1])])
    function = graph.library.function.add()
    function.signature.name = "f"
    function.node_def.append(constant("w", values))
    _, cutter = cut(graph.SerializeToString())
    keys: list[TensorKey] = [("", "w", "value"), ("f", "w", "value")]
    assert sorted(cutter.tensors) == keys
    assert {place.shape for place in cutter.tensors.values()} == {(3, 4)}


def test_nothing_to_cut_copies_nothing() -> None:
    content = proto.GraphDef(node=[constant("a", np.zeros(2, np.float32))]).SerializeToString()
    assert Cutter(content, THRESHOLD).graph_def(0, len(content)) is None


def large(**change: Any) -> Any:
    """Return a graph with one large constant in an unusual form."""
    graph = proto.GraphDef(node=[constant("w", np.zeros((4, 4), np.float32))])
    tensor = graph.node[0].attr["value"].tensor
    for name, value in change.items():
        setattr(tensor, name, value)
    return graph


@pytest.mark.parametrize(
    "graph",
    [
        large(dtype=7),  # strings
        large(dtype=20),  # resources
        large(dtype=9999),
        large(tensor_content=b"x" * 100),  # does not match the shape
        proto.GraphDef(node=[proto.NodeDef(name="w", op="Const", device="d" * 100)]),
    ],
)
def test_unusual_tensors_stay_in_the_message(graph: Any) -> None:
    content = graph.SerializeToString()
    light, cutter = cut(content)
    assert light == graph
    assert not cutter.tensors


def test_unknown_sizes_stay_in_the_message() -> None:
    graph = large()
    graph.node[0].attr["value"].tensor.tensor_shape.dim[0].size = -1
    assert not cut(graph.SerializeToString())[1].tensors
    graph.node[0].attr["value"].tensor.tensor_shape.unknown_rank = True
    assert not cut(graph.SerializeToString())[1].tensors


def test_other_values_beside_the_content_stay() -> None:
    graph = large()
    graph.node[0].attr["value"].tensor.float_val.append(1.0)
    assert not cut(graph.SerializeToString())[1].tensors


def test_repeated_attr_is_passed_to_the_parser() -> None:
    node = large().node[0]
    other = constant("w", np.ones((4, 4), np.float32))
    content = node.SerializeToString() + other.SerializeToString()  # merges: the last one wins
    content = length_delimited(1, len(content)) + content
    light, cutter = cut(content)
    assert not cutter.tensors
    assert light == proto.GraphDef.FromString(content)


@settings(max_examples=300)
@given(graphs(), st.data())
def test_damaged_bytes_are_errors_or_parse_like_protobuf(graph: Any, data: st.DataObject) -> None:
    content = bytearray(graph.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[: data.draw(st.integers(0, len(content)))])
    cutter = Cutter(damaged, THRESHOLD)
    try:
        light = cutter.graph_def(0, len(damaged))
    except errors.DataLossError:
        return
    shown = damaged if light is None else light
    try:
        expected = proto.GraphDef.FromString(damaged)
    except DecodeError:
        with pytest.raises(DecodeError):
            proto.GraphDef.FromString(shown)
        return
    message = proto.GraphDef.FromString(shown)
    put_back(message, cutter, damaged)
    assert message == expected


def test_names_used_twice_are_cut_once() -> None:
    node = constant("w", np.zeros((4, 4), np.float32))
    _, cutter = cut(proto.GraphDef(node=[node, node]).SerializeToString())
    assert list(cutter.tensors) == [("", "w", "value")]
