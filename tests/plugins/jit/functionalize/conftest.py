"""A host whose sessions functionalize their graphs and store the records."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import graphmill
from graphmill.testing.differential.pass_bisection import pass_names
from graphmill_plugins.jit.functionalize import Region, RegionRecord, functionalize


class Functionalizing:
    """The pass, and its records.

    Attributes:
        host: runs the pass, and nothing else that compiles.
        records: what became of the regions.
        refused: kinds of regions that are to stay.
        keep: names of nodes that are to stay.
    """

    def __init__(self) -> None:
        default = graphmill.default_host()
        self.records: list[RegionRecord] = []
        self.refused: set[str] = set()
        self.keep: set[str] = set()
        self.host = copy.copy(default)
        self.host.passes = default.passes.without([n for n in pass_names(default) if "jit" in n])
        self.host.passes.add_pass(
            "functionalize",
            self._functionalize,
            phase="POST_REWRITE_FOR_EXEC",
            order=50,
            owner=default.passes.provenance("identity_pruning"),
        )

    def run(self, graph: Any, fetches: Any, feeds: Any = None) -> Any:
        with graphmill.Session(graph=graph, host=self.host) as session:
            return session.run(fetches, feeds)

    @property
    def outcomes(self) -> list[tuple[str, str]]:
        return [(record.kind, record.outcome) for record in self.records]

    def _functionalize(self, graph: Any, options: Any) -> None:
        keep = [node for node in graph.nodes if node.name in self.keep]
        self.records += functionalize(graph, self._refusal_of, keep, host=options.host)

    def _refusal_of(self, region: Region) -> str | None:
        return "refused" if region.kind in self.refused else None


@pytest.fixture
def functionalizing() -> Functionalizing:
    return Functionalizing()
