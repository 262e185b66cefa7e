"""`AttrsCache`: values computed for a node from its op and attrs, for nodes that share both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from graphmill.graph.node import Node

_T = TypeVar("_T")


class AttrsCache(Generic[_T]):
    """Values by the op and the attrs of nodes.

    Nodes with equal attrs mostly share one dict, as those of an imported graph do, so attrs are
    compared by identity, which is fast. The cache holds a reference to them: no other attrs get
    their id.
    """

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], tuple[dict[str, Any], _T]] = {}

    def find(self, node: Node) -> _T | None:
        """Return the value that was stored for a node with this op and these attrs, or None."""
        entry = self._entries.get((node.op_def.name, id(node.attrs)))
        return None if entry is None else entry[1]

    def store(self, node: Node, value: _T) -> _T:
        """Store a value for all nodes with this op and these attrs; return it."""
        self._entries[node.op_def.name, id(node.attrs)] = (node.attrs, value)
        return value
