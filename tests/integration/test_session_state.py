"""Tensors that a session keeps between runs (row S9)."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops


@pytest.fixture
def graph():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.data_flow.get_session_handle(ops.math.mul(x, x), name="keep")
        handle = graph.placeholder("string", [], name="handle")
        kept = ops.data_flow.get_session_tensor(handle, dtype="float32", name="kept")
        ops.math.add_v2(kept, 1.0, name="more")
        ops.data_flow.delete_session_tensor(handle, name="delete")
    return graph


def test_s9_session_tensor_is_read_by_later_runs(graph) -> None:
    with graphmill.Session(graph=graph) as session:
        first = session.run("keep:0", {"x:0": [1, 2]})
        second = session.run("keep:0", {"x:0": [3]})
        assert first != second
        np.testing.assert_array_equal(session.run("more:0", {"handle:0": first}), [2, 5])
        np.testing.assert_array_equal(session.run("more:0", {"handle:0": second}), [10])


def test_s9_a_deleted_tensor_is_gone(graph) -> None:
    with graphmill.Session(graph=graph) as session:
        handle = session.run("keep:0", {"x:0": [1, 2]})
        session.run("delete", {"handle:0": handle})
        with pytest.raises(errors.InvalidArgumentError, match="not in the session store"):
            session.run("more:0", {"handle:0": handle})
        with pytest.raises(errors.InvalidArgumentError, match="not in the session store"):
            session.run("delete", {"handle:0": handle})


def test_s9_a_tensor_belongs_to_its_session(graph) -> None:
    with graphmill.Session(graph=graph) as one, graphmill.Session(graph=graph) as other:
        handle = one.run("keep:0", {"x:0": [1, 2]})
        with pytest.raises(errors.InvalidArgumentError, match="another session"):
            other.run("more:0", {"handle:0": handle})
