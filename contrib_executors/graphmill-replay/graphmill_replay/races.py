"""Find data races: unordered accesses to one variable or table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

from graphmill.spi import dtypes, topological_order

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node


@dataclass(frozen=True, slots=True)
class Race:
    """Two unordered accesses, at least one of them a write.

    Attributes:
        resource: name of the variable or table.
        first, second: the names of the nodes; `first` writes.
        first_op, second_op: their ops.
    """

    resource: str
    first: str
    first_op: str
    second: str
    second_op: str

    def __str__(self) -> str:
        return (
            f"{self.resource}: no edge orders {self.first!r} ({self.first_op}) and {self.second!r} "
            f"({self.second_op}). Add a control edge, '^{self.first}' as an input of "
            f"{self.second!r}, or the other way round"
        )

    def as_dict(self) -> dict[str, str]:
        """Return the race as JSON data."""
        return asdict(self)


def races(graph: Graph) -> list[Race]:
    """Return all races of a graph, sorted by resource."""
    order = topological_order(graph)
    accesses: dict[str, list[tuple[Node, bool]]] = {}
    for node in order:
        for resource, is_change in _accesses(node).items():
            accesses.setdefault(resource, []).append((node, is_change))
    before = _ancestors_among(order, {node for found in accesses.values() for node, _ in found})
    races = []
    for resource, found in sorted(accesses.items()):
        for (a, a_changes), (b, b_changes) in combinations(found, 2):
            is_ordered = before[b] >> a.id & 1 or before[a] >> b.id & 1
            if (a_changes or b_changes) and not is_ordered:
                first, second = (a, b) if a_changes else (b, a)
                races.append(Race(resource, first.name, first.op, second.name, second.op))
    return races


def _ancestors_among(order: list[Node], accesses: set[Node]) -> dict[Any, int]:
    """Return for each node the bit set of its ancestors among `accesses`."""
    found: dict[Any, int] = {}
    for node in order:
        bits = 0
        for edge in (*node.in_edges, *node.control_in_edges):
            source = edge.src
            if source in found:  # not for the NextIteration of a loop, which comes later
                bits |= found[source] | (1 << source.id if source in accesses else 0)
        found[node] = bits
    return found


def _accesses(node: Node) -> dict[str, bool]:
    """Return the resources that a node accesses, and whether it may write to them."""
    found: dict[str, bool] = {}
    if _passes_on(node) and not _reads_a_reference(node):
        return found
    for position, edge in enumerate(node.in_edges):
        dtype = edge.src.output_types[edge.src_output]
        if not (dtype.is_ref or dtype is dtypes.resource):
            continue
        wants_reference = dtype is dtypes.resource or node.input_types[position].is_ref
        is_change = wants_reference and not _only_reads(node, position)
        name = _source_name(edge.src)
        found[name] = found.get(name, False) or is_change
    return found


def _passes_on(node: Node) -> bool:
    """Return whether a node forwards a handle or reference from an input to an output."""
    return node.op_def.traits.forwards or node.op_def.traits.is_control_flow


def _only_reads(node: Node, position: int) -> bool:
    """Return whether a node is declared not to write to the resource of an input."""
    ranges = node.op_def.input_ranges(node.attrs)
    for use in node.op_def.traits.resources or ():
        start, stop = ranges[use.input]
        if start <= position < stop:
            return not use.writes
    return False


def _reads_a_reference(node: Node) -> bool:
    return any(
        edge.src.output_types[edge.src_output].is_ref and not node.input_types[position].is_ref
        for position, edge in enumerate(node.in_edges)
    )


def _source_name(node: Node) -> str:
    """Return the name of the variable or table behind a node's handle."""
    seen = set()
    while _passes_on(node) and node.in_edges and node not in seen:
        seen.add(node)
        node = node.in_edges[0].src
    shared = node.attrs.get("shared_name") or b""
    return str(shared.decode("utf-8", "replace") or node.name)
