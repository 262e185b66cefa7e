"""Helpers of functions that add several nodes: name scopes, and shapes as inputs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.graph.infer_graph import infer_graph

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.builder import Graph


@contextmanager
def scope(name: str | None, default: str, *values: Any) -> Iterator[tuple[Graph, str]]:
    """Add the nodes of a `with` block under a name, to the graph of the values.

    Args:
        name: the name, or None.
        default: the name if `name` is None.
        values: tensors and other values, by which the graph is found; else the default graph.

    Returns:
        The graph, and the name of the node that is the result, `name/`.
    """
    graph = infer_graph(*values)
    with graph.as_default(), graph.name_scope(name or default) as prefix:
        yield graph, prefix


def shape_input(shape: Any) -> Any:
    """Return a shape, or axes, as an input of an op: an empty list as a vector of integers."""
    return np.zeros(0, np.int32) if isinstance(shape, (list, tuple)) and not shape else shape
