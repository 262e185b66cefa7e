"""Fuzz target: read a GraphDef in text form."""

from __future__ import annotations

from google.protobuf import text_format
from typed_errors import typed_errors

import graphmill
from graphmill import proto
from graphmill.graph.formats.model_file import load_graph


def seeds() -> list[bytes]:
    """Return a small graph as text."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant([1.0, 2.0], name="x")
        graph.constant([b"a\0b"], name="text")
        graphmill.ops.math.neg(x, name="y")
    return [text_format.MessageToString(graph.as_graph_def()).encode()]


def read_message(data: bytes) -> proto.GraphDef:
    """Return the graph in a seed."""
    return text_format.Parse(data, proto.GraphDef())


def write_message(message: proto.GraphDef, data: bytes) -> bytes:
    """Return a graph as input."""
    del data
    return text_format.MessageToString(message).encode()


def fuzz(data: bytes) -> None:
    """Read the text as the file of a model."""
    with typed_errors():
        graph = load_graph(data).graph_def
        with graphmill.Session(graph=graph, trust=False) as session:
            session.graph.as_graph_def()


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
