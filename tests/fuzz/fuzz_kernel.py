"""Fuzz target: run a graph of a few nodes whose attrs, constants and edges are changed.

The seeds are one case of each op in `graphmill.testing.cases`, with constants as inputs.
"""

from __future__ import annotations

from functools import cache

from case_seeds import case_seeds
from session_config import session_config
from typed_errors import typed_errors

import graphmill
from graphmill import proto

_CONFIG = session_config(40, 1 << 22)  # many inputs wait in a queue until their time is over
_MAX_FETCHES = 3


@cache
def seeds() -> list[bytes]:
    """Return a graph for each op."""
    return case_seeds()


def read_message(data: bytes) -> proto.GraphDef:
    """Return the graph in a seed."""
    return proto.GraphDef.FromString(data)


def write_message(message: proto.GraphDef, data: bytes) -> bytes:
    """Return a graph as input."""
    del data
    return message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Run the last nodes of a graph that may have no effects."""
    with (
        typed_errors(),
        graphmill.Session(graph=data, config=_CONFIG, trust=False) as session,
    ):
        for name in [node.name for node in session.graph.nodes][-_MAX_FETCHES:]:
            with typed_errors():
                session.run(name)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
