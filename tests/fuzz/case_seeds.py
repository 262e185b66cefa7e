"""Seeds of fuzz targets from the cases of `graphmill.testing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import graphmill
from graphmill.testing.case import load_cases
from graphmill.testing.case_graph import case_graph, make_constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill import proto
    from graphmill.testing.case import Case

_MAX_BYTES = 2_000


def case_seeds(*families: str) -> list[bytes]:
    """Return the graph of the first case of each op whose family is named; of all by default.

    Large ones are left out.
    """
    found: dict[str, bytes] = {}
    for case in _cases(families):
        if case.op not in found and not case.error:
            content = _graph_of(case).SerializeToString()
            if len(content) <= _MAX_BYTES:
                found[case.op] = content
    return list(found.values())


def _cases(families: tuple[str, ...]) -> Iterator[Case]:
    return (case for case in load_cases() if not families or case.family in families)


def _graph_of(case: Case) -> proto.GraphDef:
    """Return the graph of a case with its feeds as constants."""
    graph = case_graph(case, graphmill.default_host().ops)
    for node in graph.graph_def.node:
        if f"{node.name}:0" in graph.feeds:
            make_constant(node, graph.feeds[f"{node.name}:0"])
    return graph.graph_def
