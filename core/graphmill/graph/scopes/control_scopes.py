"""Control dependency scopes of a graph under construction.

Semantics: Graph.control_dependencies of tensorflow/python/framework/ops.py. A node gets an edge
from each of a scope's nodes, unless one of its inputs was made in the same scope and waits for
them.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.graph.node import Node


class _Scope:
    """The control inputs of all nodes in a scope, and the nodes that were added in it."""

    __slots__ = ("control_inputs", "members")

    def __init__(self, control_inputs: Sequence[Node]) -> None:
        self.control_inputs = control_inputs
        self.members: set[Node] = set()


class ControlScopes:
    """The open control dependency scopes, innermost last."""

    def __init__(self) -> None:
        self._stack: list[_Scope] = []

    @contextmanager
    def scope(self, control_inputs: Sequence[Node] | None) -> Iterator[None]:
        """Open a scope whose nodes wait for `control_inputs`; None suspends enclosing scopes."""
        outer = self._stack
        self._stack = [] if control_inputs is None else [*outer, _Scope(control_inputs)]
        try:
            yield
        finally:
            self._stack = outer

    def control_inputs(self, inputs: Iterable[Node]) -> list[Node]:
        """Return the control inputs of a new node with these inputs."""
        sources = set(inputs)
        nodes: dict[Node, None] = {}
        for scope in self._stack:
            if not sources & scope.members:
                nodes.update((node, None) for node in scope.control_inputs if node not in sources)
        return list(nodes)

    def awaited(self) -> frozenset[Node]:
        """Return the control inputs of all open scopes."""
        return frozenset(node for scope in self._stack for node in scope.control_inputs)

    def add_member(self, node: Node) -> None:
        """Record that a node was added in all open scopes."""
        for scope in self._stack:
            scope.members.add(node)
