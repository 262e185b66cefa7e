"""Control dependency scopes of a graph that is being built.

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
    """The nodes that all nodes of a scope wait for, and the nodes made in it."""

    __slots__ = ("control_inputs", "members")

    def __init__(self, control_inputs: Sequence[Node]) -> None:
        self.control_inputs = control_inputs
        self.members: set[Node] = set()


class ControlScopes:
    """The control dependency scopes that are open, innermost last."""

    def __init__(self) -> None:
        self._stack: list[_Scope] = []

    @contextmanager
    def scope(self, control_inputs: Sequence[Node] | None) -> Iterator[None]:
        """Open a scope whose nodes wait for `control_inputs`; None closes off those around."""
        outer = self._stack
        self._stack = [] if control_inputs is None else [*outer, _Scope(control_inputs)]
        try:
            yield
        finally:
            self._stack = outer

    def control_inputs(self, inputs: Iterable[Node]) -> list[Node]:
        """Return the nodes that a new node with these inputs has to wait for."""
        sources = set(inputs)
        found: dict[Node, None] = {}
        for scope in self._stack:
            if not sources & scope.members:
                found.update((node, None) for node in scope.control_inputs if node not in sources)
        return list(found)

    def awaited(self) -> frozenset[Node]:
        """Return the nodes that the open scopes make new nodes wait for."""
        return frozenset(node for scope in self._stack for node in scope.control_inputs)

    def add_member(self, node: Node) -> None:
        """Note that a node was made in all open scopes."""
        for scope in self._stack:
            scope.members.add(node)
