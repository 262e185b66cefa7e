"""Colocation groups: nodes with a colocation attr, a shared reference or a shared handle.

Semantics: `tensorflow/core/common_runtime/colocation_graph.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.dtypes import resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.graph.device_name import DeviceName
    from graphmill.graph.node import Edge, Node

CLASS_ATTR: Final = "_class"
_PREFIX: Final = b"loc:@"


class ColocationGroups:
    """Colocation groups, as a union-find over the names of nodes.

    A group may be named after a node that is not (or no longer) in the graph.
    """

    def __init__(self) -> None:
        self._parent: dict[str, str] = {}

    def add(self, nodes: Iterable[Node]) -> None:
        """Add the groups that the attrs and inputs of nodes require."""
        for node in nodes:
            for group in colocated_names(node):
                self._join(group, node.name)
            for edge in node.in_edges:
                if must_colocate(edge):
                    self._join(edge.src.name, node.name)

    def find(self, name: str) -> str:
        """Return the representative name of a node's group."""
        parent = self._parent
        root = name
        while (next_name := parent.get(root)) is not None:
            root = next_name
        while name != root:
            parent[name], name = root, parent[name]
        return root

    def _join(self, first: str, second: str) -> None:
        a, b = self.find(first), self.find(second)
        if a != b:
            self._parent[b] = a


def colocated_names(node: Node) -> list[str]:
    """Return the groups in a node's `_class` attr; an attr of another type is ignored."""
    entries = node.attrs.get(CLASS_ATTR)
    if not isinstance(entries, tuple):
        return []
    return [
        entry.removeprefix(_PREFIX).decode("utf-8", "surrogateescape")
        for entry in entries
        if isinstance(entry, bytes) and entry.startswith(_PREFIX)
    ]


def must_colocate(edge: Edge) -> bool:
    """Return whether an edge carries a reference or a handle, which cannot leave its device."""
    dtype = edge.src.output_types[edge.src_output]
    if dtype.is_ref:
        return edge.dst.input_types[edge.dst_input].is_ref
    return dtype is resource


def takes_reference_or_handle(node: Node) -> bool:
    """Return whether a node takes a reference or a handle, and so must be on the same device."""
    return any(map(must_colocate, node.in_edges))


def merge_requests(first: DeviceName, second: DeviceName, *, soft: bool) -> DeviceName | None:
    """Return a request that satisfies both requests, or None if they conflict.

    With `soft`, conflicting device types and ids are left unspecified.
    """
    for part in ("job", "replica", "task"):
        a, b = getattr(first, part), getattr(second, part)
        if None not in (a, b) and a != b:
            return None
    merged = first.merged_over(second)
    type_differs = None not in (first.type, second.type) and first.type != second.type
    id_differs = None not in (first.id, second.id) and first.id != second.id
    if not (type_differs or id_differs):
        return merged._replace(type=first.type or second.type, id=_first(first.id, second.id))
    if not soft:
        return None
    return merged._replace(type=None if type_differs else merged.type, id=None)


def _first(a: int | None, b: int | None) -> int | None:
    return b if a is None else a
