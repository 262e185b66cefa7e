"""List all nodes that a traced program cannot hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill_plugins.jit.functionalize.region_selection import why_untraceable
from graphmill_plugins.jit.ir.lowering_choices import followed_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from graphmill.spi import Node
    from graphmill_plugins.jit.functionalize.region import RegionRecord
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, ScheduledBody


def refusals(
    bodies: ScheduledBodies, records: Iterable[RegionRecord], variables: Collection[Node]
) -> list[str]:
    """Return why nodes cannot be traced, each with its name; functions are included.

    Args:
        bodies: the graph.
        records: what became of its loops and conditionals.
        variables: the nodes of its variables.
    """
    reasons = [
        f"{record.kind} {record.name}: {record.outcome}"
        for record in records
        if not record.is_functionalized
    ]
    reasons += [
        why
        for node in all_nodes(bodies)
        if node not in variables and (why := why_untraceable(node, bodies.choices)) is not None
    ]
    return list(dict.fromkeys(reasons))


def all_nodes(bodies: ScheduledBodies) -> Iterator[Node]:
    """Yield the nodes of a graph and of all functions that it calls."""
    yield from _nodes_of(bodies, bodies.main, set())


def _nodes_of(bodies: ScheduledBodies, body: ScheduledBody, seen: set[str]) -> Iterator[Node]:
    yield from body.nodes
    for node in body.nodes:
        for function in followed_functions(node):
            if function.name not in seen:
                seen.add(function.name)
                yield from _nodes_of(bodies, bodies.function(function), seen)
