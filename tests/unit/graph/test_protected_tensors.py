"""Sessions refuse to feed and to fetch what a graph protects."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors


@pytest.fixture
def graph():
    with graphmill.Graph().as_default() as graph:
        yield graph


def test_protected_tensor_is_not_fed(graph):
    x, other = graph.constant(1.0, name="x"), graph.constant(2.0)
    y = x + other
    with graphmill.Session(graph=graph) as session:
        assert session.run(y, {x: 5.0}) == 7
        assert graph.is_feedable(x)
        graph.prevent_feeding(x)
        assert not graph.is_feedable(x)
        assert graph.is_feedable(other)
        for feed in (x, "x:0"):
            with pytest.raises(ValueError, match="x:0 may not be fed"):
                session.run(y, {feed: 5.0})
        with pytest.raises(errors.InvalidArgumentError):
            session.make_callable(y, [x])
        assert session.run(y, {other: 5.0}) == 6


def test_protected_node_is_not_fetched(graph):
    x = graph.constant(1.0, name="x")
    y = graph.convert(x + 1, name="y")
    with graphmill.Session(graph=graph) as session:
        assert session.run(x) == 1
        graph.prevent_fetching(x.op)
        assert not graph.is_fetchable(x)
        assert not graph.is_fetchable(x.op)
        assert graph.is_fetchable(y)
        for fetch in (x, "x:0", x.op, [y, x]):
            with pytest.raises(ValueError, match="'x' has been marked as not fetchable"):
                session.run(fetch)
        with pytest.raises(ValueError, match="not fetchable"):
            session.partial_run_setup([x])
        assert session.run(y) == 2
