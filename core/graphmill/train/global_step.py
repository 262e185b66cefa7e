"""The global step: a variable that counts the training steps of a graph.

Semantics: tensorflow/python/training/training_util.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import AlreadyExistsError
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.variable import Variable

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph

_NAME = "global_step"


def get_global_step(graph: Graph | None = None) -> Variable | None:
    """Return the global step of a graph (by default the default graph), or None."""
    variables = (variable for variable in (infer_graph() if graph is None else graph).variables)
    return next((v for v in variables if v.variable_name == _NAME), None)


def create_global_step(graph: Graph | None = None) -> Variable:
    """Add the global step: an int64 variable with the initial value 0.

    Raises:
        AlreadyExistsError: the graph already has one.
    """
    graph = infer_graph() if graph is None else graph
    if get_global_step(graph) is not None:
        raise AlreadyExistsError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return Variable(0, trainable=False, name=_NAME, dtype="int64")


def get_or_create_global_step(graph: Graph | None = None) -> Variable:
    """Return the global step of a graph; add one if it has none."""
    graph = infer_graph() if graph is None else graph
    existing = get_global_step(graph)
    return create_global_step(graph) if existing is None else existing
