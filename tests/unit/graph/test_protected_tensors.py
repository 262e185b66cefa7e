"""Sessions refuse to feed and to fetch what a graph protects."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.graph.protected_tensors import ProtectedTensors
from graphmill.testing.proto_builders import const_def, graph_def


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


def test_graph_that_protects_nothing_has_sessions():
    """Imported graphs without the methods of `graphmill.Graph` are given to sessions, too."""
    made = graph_from_graph_def(
        graph_def(const_def("x", np.float32(2))), graphmill.default_host().ops
    )
    assert not isinstance(made, ProtectedTensors)
    with graphmill.Session(graph=made) as session:
        assert session.run("x:0") == 2
