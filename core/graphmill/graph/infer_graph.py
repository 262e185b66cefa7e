"""Infer the graph to build in from the arguments of a function."""

from __future__ import annotations

from typing import Any

from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph
from graphmill.graph.node import Node
from graphmill.graph.structures import flatten
from graphmill.graph.tensor import Tensor
from graphmill.ops.inputs.default_graph import get_default_graph


def infer_graph(*values: Any) -> Graph:
    """Return the graph of the first tensor or node among the values, or else the default graph.

    Args:
        values: tensors, nodes, other values, and structures of these.

    Raises:
        FailedPreconditionError: no value is a tensor or node, and there is no default graph.
        InvalidArgumentError: nodes cannot be added to the graph.
    """
    for value in flatten(values):
        if isinstance(value, (Tensor, Node)):
            inferred: Any = value.graph
            break
    else:
        inferred = get_default_graph()
    if not isinstance(inferred, Graph):
        raise InvalidArgumentError(
            f"nodes cannot be added to a {type(inferred).__name__}; use a graphmill.Graph"
        )
    return inferred
