"""Functionalized graphs match the originals under the DEFAULT executor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import graphmill
from graphmill import errors
from graphmill.testing.differential.pass_bisection import without_passes
from graphmill.testing.generators.control_flow_graphs import structured_graph, structured_graphs
from graphmill.testing.generators.control_flow_programs import programs, random_program

pytestmark = pytest.mark.divided

_OPS = graphmill.default_host().ops
_SETTINGS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def check_program(program: Any, functionalizing: Any) -> None:
    graph = graphmill.Graph()
    built = program.build(graph)
    functionalizing.records.clear()
    with graphmill.Session(graph=graph, host=functionalizing.host) as session:
        for x in (-2, 5):
            assert built.run(session, x) == program.expected(x), program.name
    assert all(record.is_functionalized for record in functionalizing.records)


@_SETTINGS
@given(programs(depth=3))
def test_programs_match_the_executor(functionalizing: Any, program: Any) -> None:
    check_program(program, functionalizing)


@pytest.mark.parametrize("seed", range(30))
def test_seeded_programs_match_the_executor(functionalizing: Any, seed: int) -> None:
    check_program(random_program(seed), functionalizing)


def results(graph: Any, host: Any) -> list[Any]:
    """Return the value of each fetch, or the class of the error."""
    found: list[Any] = []
    with graphmill.Session(graph=graph.graph, host=host) as session:
        for fetch in graph.fetches:
            try:
                found.append(int(session.run(fetch, graph.feeds)))
            except errors.OpError as error:
                found.append(type(error))
    return found


def check_structured(graph: Any, functionalizing: Any) -> None:
    plain = without_passes(functionalizing.host, ["functionalize"])
    assert results(graph, functionalizing.host) == results(graph, plain), graph.name


@_SETTINGS
@given(structured_graphs(_OPS))
def test_graphs_with_dead_values_match_the_executor(functionalizing: Any, graph: Any) -> None:
    check_structured(graph, functionalizing)


@pytest.mark.parametrize("seed", range(30))
def test_seeded_graphs_with_dead_values_match_the_executor(functionalizing: Any, seed: int) -> None:
    check_structured(structured_graph(seed, _OPS), functionalizing)
