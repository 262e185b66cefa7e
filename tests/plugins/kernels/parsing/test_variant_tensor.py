"""Variants are serialized as TensorFlow does it, and parsed again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

# A list of three tensors [2] of float32 of which the second is set, by TensorFlow 2.21.
BY_TENSORFLOW = (
    b"\x08\x15\x12\x00\x22\x41@\n\x16tensorflow::TensorList\x12\x12\x02\x00\x02\x01"
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x12\x02\x08\x02"
    b"\x1a\x12\x08\x01\x12\x04\x12\x02\x08\x02*\x08\x00\x00\x80?\x00\x00\x00@"
)


def item(graph: graphmill.Graph, handle: Any, index: int) -> Any:
    return ops.tensor_list.tensor_list_get_item(
        handle, graph.constant(index), graph.constant([2]), element_dtype="float32"
    )


def parsed(data: bytes, dtype: str = "variant") -> Any:
    """Return element 1 of a serialized list."""
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [], name="text")
        handle = ops.parsing.parse_tensor(text, out_type=dtype, name="parsed")
        out = item(graph, handle, 1)
    with graphmill.Session(graph=graph) as session:
        return session.run(out, {text: data}).tolist()


def test_a_list_that_tensorflow_has_serialized_is_parsed() -> None:
    assert parsed(BY_TENSORFLOW) == [1, 2]


def test_a_list_survives_serialization() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.tensor_list.tensor_list_from_tensor(
            graph.placeholder("float32", [2, 2], name="x"), graph.constant([2])
        )
        out = ops.parsing.serialize_tensor(handle)
    with graphmill.Session(graph=graph) as session:
        data = session.run(out, {"x:0": np.float32([[1, 2], [3, 4]])})
    assert parsed(data) == [3, 4]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"\x08\x01",
        BY_TENSORFLOW[:-1],
        BY_TENSORFLOW.replace(b"\1\x12\2\x08\2", b"\7\7\7\7\7"),
    ],
    ids=["empty", "garbage", "number", "cut", "metadata"],
)
def test_malformed_variants_are_invalid(data: bytes) -> None:
    with pytest.raises(errors.InvalidArgumentError) as caught:
        parsed(data)
    assert caught.value.node == "parsed"


def test_a_type_without_a_codec_is_unimplemented() -> None:
    with pytest.raises(errors.UnimplementedError, match="Other::Type"):
        parsed(BY_TENSORFLOW.replace(b"tensorflow::TensorList", b"Other::Type..........."))
    graph = graphmill.Graph()
    with graph.as_default():
        bounds = (graph.constant(np.int64(value)) for value in (0, 3, 1))
        made = ops.dataset.range_dataset(*bounds, output_types=["int64"], output_shapes=[[]])
        out = ops.parsing.serialize_tensor(made, name="out")
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match="register_variants") as caught,
    ):
        session.run(out)
    assert caught.value.node == "out"
