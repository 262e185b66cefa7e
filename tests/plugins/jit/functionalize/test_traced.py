"""Functionalized graphs compiled by JAX match the interpreted originals."""

from __future__ import annotations

import numpy as np
import pytest
from tests.plugins.jit import tracer

import graphmill
from graphmill import errors
from graphmill.lowering.prune import build_client_graph
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill_plugins.jit.functionalize import functionalize


@pytest.mark.parametrize("seed", range(12))
def test_traced_loops_and_conditionals_match_the_interpreter(seed: int) -> None:
    host = graphmill.default_host()
    graph = structured_graph(seed, host.ops, depth=2)
    for fetch in graph.fetches[:1]:
        client = build_client_graph(graph.graph, host.ops, list(graph.feeds), [fetch], []).graph
        records = functionalize(client)
        with graphmill.Session(graph=graph.graph) as session:
            try:
                expected = session.run(fetch, graph.feeds)
            except errors.InvalidArgumentError:  # it is dead
                assert not all(record.is_functionalized for record in records)
                continue
        if all(record.is_functionalized for record in records):
            [result] = tracer.run(client, list(graph.feeds.values()))
            np.testing.assert_array_equal(result, expected)
            assert result.dtype == expected.dtype
