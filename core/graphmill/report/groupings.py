"""`Grouping`: a tree of groups over the nodes of a graph, for drawing.

A group has at most `MAX_CHILDREN` groups and nodes; where there are more, neighbours are put
together, so that each step of unfolding stays readable.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.report.graph_nodes import GraphNodes

MAX_CHILDREN: Final = 40
_ROOT: Final = 0

Path = tuple[tuple[str, str], ...]
"""The groups that a node is in, from the outside in: the label and kind of each."""


@dataclass(slots=True)
class Grouping:
    """A tree of groups; group 0 is the root.

    Attributes:
        key: its name for programs.
        title: its name for people.
        parents: the parent of each group; -1 for the root.
        labels: the label of each group.
        kinds: what each group is: `root`, `scope`, `function`, `frame`, `device`, `cluster` or
            `part` (neighbours that were put together).
        of: the group of each node.
    """

    key: str
    title: str
    parents: list[int] = field(default_factory=lambda: [-1])
    labels: list[str] = field(default_factory=lambda: [""])
    kinds: list[str] = field(default_factory=lambda: ["root"])
    of: list[int] = field(default_factory=list)

    def add(self, parent: int, label: str, kind: str) -> int:
        """Add a group and return its index."""
        self.parents.append(parent)
        self.labels.append(label)
        self.kinds.append(kind)
        return len(self.parents) - 1

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain values, ready for JSON."""
        return {
            "key": self.key,
            "title": self.title,
            "parents": self.parents,
            "labels": self.labels,
            "kinds": self.kinds,
            "of": self.of,
        }


def grouping(key: str, title: str, nodes: GraphNodes, path_of: Callable[[int], Path]) -> Grouping:
    """Return the grouping of nodes by a path of each node.

    Args:
        key, title: its names.
        nodes: the nodes, in the order in which neighbours are put together.
        path_of: returns the groups of the node at a position.
    """
    tree = Grouping(key, title)
    groups: dict[Path, int] = {(): _ROOT}

    def group_of(path: Path) -> int:
        index = groups.get(path)
        if index is None:
            parent = group_of(path[:-1])
            index = groups[path] = tree.add(parent, *path[-1])
        return index

    tree.of = [group_of(path_of(position)) for position in range(len(nodes))]
    _bound_children(tree, nodes)
    return tree


def scope_path(nodes: GraphNodes, position: int) -> Path:
    """Return the function and the name scopes of a node."""
    scopes = nodes.local_name(position).split("/")[:-1]
    function = nodes.functions[position]
    head: Path = ((function, "function"),) if function else ()
    return (*head, *((scope, "scope") for scope in scopes))


def function_path(nodes: GraphNodes, position: int) -> Path:
    """Return the function of a node."""
    function = nodes.functions[position]
    return ((function, "function"),) if function else (("the graph", "function"),)


def frame_path(nodes: GraphNodes, position: int) -> Path:
    """Return the function and the frames of a node."""
    function = nodes.functions[position]
    head: Path = ((function, "function"),) if function else ()
    return (*head, *((frame, "frame") for frame in nodes.frames[position]))


def _bound_children(tree: Grouping, nodes: GraphNodes) -> None:
    """Put neighbours together in groups with too many children."""
    children: dict[int, list[tuple[int, int, bool]]] = {}  # group: (first node, child, is node)
    firsts = _first_nodes(tree)
    for group in range(1, len(tree.parents)):
        children.setdefault(tree.parents[group], []).append((firsts[group], group, False))
    for position, group in enumerate(tree.of):
        children.setdefault(group, []).append((position, position, True))
    for group, members in children.items():
        if len(members) > MAX_CHILDREN:
            _divide(tree, nodes, group, sorted(members))


def _first_nodes(tree: Grouping) -> list[int]:
    """Return the position of the first node of each group."""
    firsts = [len(tree.of)] * len(tree.parents)
    for position, group in enumerate(tree.of):
        while group >= 0 and firsts[group] > position:
            firsts[group] = position
            group = tree.parents[group]
    return firsts


def _divide(
    tree: Grouping, nodes: GraphNodes, group: int, members: Sequence[tuple[int, int, bool]]
) -> None:
    """Divide a group's members into subgroups of equal size, recursively if there are too many."""
    if len(members) <= MAX_CHILDREN:
        return
    count = -(-len(members) // MAX_CHILDREN)
    size = -(-len(members) // count)
    parts = []
    for start in range(0, len(members), size):
        chosen = members[start : start + size]
        label = f"{_label(tree, nodes, chosen[0])} … {_label(tree, nodes, chosen[-1])}"
        part = tree.add(group, label, "part")
        for _, child, is_node in chosen:
            (tree.of if is_node else tree.parents)[child] = part
        parts.append((chosen[0][0], part, False))
    _divide(tree, nodes, group, parts)


def _label(tree: Grouping, nodes: GraphNodes, member: tuple[int, int, bool]) -> str:
    _, child, is_node = member
    if not is_node:
        return tree.labels[child].partition(" … ")[0]
    return nodes.local_name(child).rpartition("/")[2]
