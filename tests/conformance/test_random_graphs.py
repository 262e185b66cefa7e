"""Sessions compute the reference evaluator's results for random graphs (E7, S6)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.session.session import Session
from graphmill.testing.generators.dataflow_graphs import graphs, random_graph
from graphmill.testing.oracle.reference_evaluator import ReferenceSession

pytestmark = pytest.mark.divided


def check(made, host):
    expected = ReferenceSession(made.graph_def, host).run(made.fetches, made.feeds)
    with Session(graph=made.graph_def, host=host) as session:
        results = session.run(list(made.fetches), made.feeds)
    for name, expected_value, actual_value in zip(made.fetches, expected, results, strict=True):
        assert np.asarray(actual_value).dtype == np.asarray(expected_value).dtype, (
            f"{made.name}, {name}"
        )
        np.testing.assert_allclose(
            actual_value, expected_value, rtol=1e-5, atol=1e-6, err_msg=f"{made.name}, {name}"
        )


@pytest.mark.parametrize("seed", range(100))
def test_seeded_graphs_match_the_reference_evaluator(seed, graphmill_host):
    check(random_graph(seed, graphmill_host.ops), graphmill_host)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(made=graphs(OpRegistry()))
def test_drawn_graphs_match_the_reference_evaluator(made, graphmill_host):
    check(made, graphmill_host)


def test_a_large_graph_runs_without_recursion(graphmill_host):
    """A graph of many nodes runs without recursion."""
    check(random_graph(7, graphmill_host.ops, nodes=3000), graphmill_host)
