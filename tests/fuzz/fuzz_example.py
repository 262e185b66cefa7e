"""Fuzz target: parse a serialized Example and SequenceExample."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from typed_errors import typed_errors

import graphmill
from graphmill import ops, proto


def seeds() -> list[bytes]:
    """Return an Example with one feature of each type, and a SequenceExample."""
    example = proto.Example()
    example.features.feature["ints"].int64_list.value.extend([1, -1, 2**40])
    example.features.feature["floats"].float_list.value.extend([1.5, -2.0])
    example.features.feature["text"].bytes_list.value.extend([b"", b"text"])
    sequence = proto.SequenceExample()
    sequence.context.CopyFrom(example.features)
    sequence.feature_lists.feature_list["steps"].feature.add().int64_list.value.append(3)
    return [example.SerializeToString(), sequence.SerializeToString()]


@cache
def _session() -> tuple[graphmill.Session, Any, list[Any]]:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [], name="text")
        parsed = ops.parsing.parse_single_example(
            text,
            [np.array([0], np.int64), np.array([0.0, 0.0], np.float32)],
            num_sparse=1,
            sparse_keys=["text"],
            dense_keys=["ints", "floats"],
            sparse_types=["string"],
            dense_shapes=[[1], [2]],
        )
        decoded = ops.parsing.decode_json_example(text)
    outputs = [output for one in parsed for output in (one if isinstance(one, list) else [one])]
    config = {"graphmill": {"jit": "off"}}
    return graphmill.Session(graph=graph, config=config), text, [outputs, decoded]


def read_message(data: bytes) -> proto.Example:
    """Return the Example in a seed; a SequenceExample begins with the same message."""
    return proto.Example.FromString(data)


def write_message(message: proto.Example, data: bytes) -> bytes:
    """Return an Example as input."""
    del data
    return message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Parse the bytes with each op."""
    session, text, fetches = _session()
    for fetch in fetches:
        with typed_errors():
            session.run(fetch, {text: np.array(data, object)})


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
