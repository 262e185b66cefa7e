"""Extending a graph before each step causes one warning, which names the line."""

from __future__ import annotations

import warnings

import pytest

import graphmill
from graphmill.session.graph_growth import GROWTHS


def run_and_extend(session: graphmill.Session, fetch: graphmill.Tensor, count: int) -> None:
    for number in range(count):
        session.graph.constant(float(number))
        session.run(fetch)


def test_a_line_that_extends_the_graph_before_each_step_is_named() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graphmill.Session(graph=graph) as session:
        first = graph.constant(0.0)
        session.run(first)
        message = r"test_graph_growth\.py:\d+ in .* has added"
        with pytest.warns(RuntimeWarning, match=message) as all_:
            run_and_extend(session, first, GROWTHS + 20)
    assert len(all_) == 1
    assert "before the last 100 steps" in str(all_[0].message)


def test_steps_between_extensions_are_no_growth() -> None:
    graph = graphmill.Graph()
    with (
        warnings.catch_warnings(),
        graph.as_default(),
        graphmill.Session(graph=graph) as session,
    ):
        warnings.simplefilter("error")
        first = graph.constant(0.0)
        for _ in range(3):
            run_and_extend(session, first, GROWTHS // 2)
            session.run(first)
            session.run(first)
