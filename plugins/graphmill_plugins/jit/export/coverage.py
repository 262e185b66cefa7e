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
        for node in _all_nodes(bodies, bodies.main, set())
        if node not in variables and (why := why_untraceable(node, bodies.choices)) is not None
    ]
    return list(dict.fromkeys(reasons))


def _all_nodes(bodies: ScheduledBodies, body: ScheduledBody, seen: set[str]) -> Iterator[Node]:
    yield from body.nodes
    for node in body.nodes:
        for function in followed_functions(node):
            if function.name not in seen:
                seen.add(function.name)
                yield from _all_nodes(bodies, bodies.function(function), seen)
