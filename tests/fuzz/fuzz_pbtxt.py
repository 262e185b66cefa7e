"""Fuzz target: read a GraphDef in text form."""

from __future__ import annotations

import contextlib

from google.protobuf import text_format

import graphmill
from graphmill import errors


def seeds() -> list[bytes]:
    """Return a small graph as text."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.constant([1.0, 2.0], name="x")
        graph.constant([b"a\0b"], name="text")
        graphmill.ops.math.neg(x, name="y")
    return [text_format.MessageToString(graph.as_graph_def()).encode()]


def fuzz(data: bytes) -> None:
    """Read the text as a model."""
    with contextlib.suppress(errors.OpError), graphmill.Session(graph=data) as session:
        session.graph.as_graph_def()


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
