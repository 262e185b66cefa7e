"""Distinguish the nodes of a model from those that graphmill has added to its graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.proto.graph_pb2 import GraphDef


def added_nodes(names: Iterable[str], model: GraphDef) -> frozenset[str]:
    """Return the names that no node of a model has.

    A node of a function that was inlined has the name of the call in front of its own.

    Args:
        names: names of nodes that a step runs.
        model: the graph of the model.
    """
    own = {node.name for node in model.node}
    inner = {node.name for function in model.library.function for node in function.node_def}
    return frozenset(name for name in names if name not in own and not _is_inner(name, inner))


def _is_inner(name: str, inner: set[str]) -> bool:
    while name not in inner:
        _, slash, name = name.partition("/")
        if not slash:
            return False
    return True
