"""Read the values of variables and the contents of tables from a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import AbortedError, FailedPreconditionError, NotFoundError
from graphmill.ops import state
from graphmill.ops.definition.frozen_forms import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor
    from graphmill.session.session import Session

    Array = np.ndarray[Any, Any]

_NO_VALUE: Final = (AbortedError, FailedPreconditionError, NotFoundError)
"""The errors that reading a variable or table without a value raises."""


class TableContents(NamedTuple):
    """The keys of a table, and the value of each."""

    keys: Array
    values: Array


class StateValues(NamedTuple):
    """Values that a session has, by the key that the caller chose.

    Attributes:
        values: the values of those that have one.
        missing: why the others have none.
    """

    values: Mapping[str, Any]
    missing: Mapping[str, str]


def variable_name(node: Node) -> str:
    """Return the name of the variable that a node represents: its shared name, or the node's."""
    shared = node.attrs.get("shared_name") or b""
    return (shared.decode() if isinstance(shared, bytes) else shared) or node.name


def variable_values(session: Session, nodes: Iterable[Node]) -> StateValues:
    """Return the values of variables by name; nodes that read resources are added to the graph.

    Args:
        session: the session.
        nodes: nodes of variables, in the session's graph or with the same names.
    """
    reads: dict[str, list[Tensor]] = {}
    for node in nodes:
        name = variable_name(node)
        if name not in reads:
            reads[name] = [_read(session.graph, node)]
    found = _run_all(session, reads)
    values = {name: np.asarray(row[0]) for name, row in found.values.items()}
    return StateValues(values, found.missing)


def table_contents(session: Session, nodes: Iterable[Node]) -> StateValues:
    """Return the contents of tables as `TableContents`, by the names of their nodes.

    Args:
        session: the session, to whose graph nodes are added.
        nodes: nodes that make tables, in the session's graph or with the same names.
    """
    found = _run_all(session, {node.name: _export(session.graph, node) for node in nodes})
    contents = {name: TableContents(*map(np.asarray, row)) for name, row in found.values.items()}
    return StateValues(contents, found.missing)


def _read(graph: Graph, node: Node) -> Tensor:
    own = graph.get_tensor_by_name(f"{node.name}:0")
    if own.dtype.is_ref:
        return own
    with graph.as_default(), graph.control_dependencies(None):
        value: Tensor = state.read_variable_op(own, dtype=node.attrs["dtype"])
    return value


def _export(graph: Graph, node: Node) -> list[Tensor]:
    handle = graph.get_tensor_by_name(f"{node.name}:0")
    types = {"Tkeys": node.attrs["key_dtype"], "Tvalues": node.attrs["value_dtype"]}
    with graph.as_default(), graph.control_dependencies(None):
        return graph.outputs_of(graph.create_op(TABLES[node.op].export, [handle], types))


def _run_all(session: Session, rows: Mapping[str, Sequence[Tensor]]) -> StateValues:
    """Run the tensors of all rows in one step; if a value is missing, run each row separately."""
    if not rows:
        return StateValues({}, {})
    try:
        flat = session.run([tensor for row in rows.values() for tensor in row])
    except _NO_VALUE:
        return _run_each(session, rows)
    results = iter(flat)
    return StateValues({name: [next(results) for _ in row] for name, row in rows.items()}, {})


def _run_each(session: Session, rows: Mapping[str, Sequence[Tensor]]) -> StateValues:
    values: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, row in rows.items():
        try:
            values[name] = session.run(list(row))
        except _NO_VALUE as error:
            missing[name] = error.message
    return StateValues(values, missing)
