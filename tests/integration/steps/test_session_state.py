"""Tensors that a session keeps between runs (clause S9)."""

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


def test_s9_a_tensor_without_a_fetched_handle_ends_with_its_step(graph) -> None:
    with graphmill.Session(graph=graph) as session:
        for _ in range(5):
            session.run("keep", {"x:0": [1, 2]})
        handle = session.run("keep:0", {"x:0": [3]})
        with pytest.raises(errors.InvalidArgumentError, match=r"this one stores 1\b"):
            session.run("more:0", {"handle:0": "no such handle"})
        assert session.run("more:0", {"handle:0": handle}) == [10]


def test_s9_a_step_that_fails_keeps_no_tensor(graph) -> None:
    with graph.as_default():
        check = ops.array.check_numerics(graph.placeholder("float32", name="y"), message="bad")
        with graph.control_dependencies([graph.get_operation_by_name("keep")]):
            ops.array.identity(check, name="checked")
    with graphmill.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="bad"):
            session.run(["keep:0", "checked:0"], {"x:0": [1], "y:0": float("nan")})
        with pytest.raises(errors.InvalidArgumentError, match=r"this one stores 0\b"):
            session.run("more:0", {"handle:0": "no such handle"})


def test_s9_a_partial_run_keeps_what_it_fetched(graph) -> None:
    with graph.as_default():
        ops.data_flow.get_session_handle(graph.get_tensor_by_name("x:0"), name="other")
        ops.array.identity(graph.placeholder("float32", name="z"), name="last")
    with graphmill.Session(graph=graph) as session:
        run = session.partial_run_setup(["keep:0", "last:0", "other"], ["x:0", "z:0"])
        handle = session.partial_run(run, "keep:0", {"x:0": [2]})
        assert session.partial_run(run, "last:0", {"z:0": 1}) == 1
        assert session.run("more:0", {"handle:0": handle}) == [5]
        with pytest.raises(errors.InvalidArgumentError, match=r"this one stores 1\b"):
            session.run("more:0", {"handle:0": "no such handle"})


def test_s9_a_resource_handle_is_fed_as_text_and_in_place_of_its_tensor(graph) -> None:
    with graph.as_default():
        x = graph.get_tensor_by_name("x:0")
        ops.data_flow.get_session_handle_v2(x, name="keep2")
    with graphmill.Session(graph=graph) as session:
        handle = session.run("keep2:0", {"x:0": [4, 5]})
        np.testing.assert_array_equal(session.run("more:0", {"handle:0": handle}), [5, 6])
        squared = session.run("keep:0", {"x:0": handle})
        np.testing.assert_array_equal(session.run("kept:0", {"handle:0": squared}), [16, 25])
        session.run("delete", {"handle:0": handle})
        with pytest.raises(errors.InvalidArgumentError, match="not in the session store"):
            session.run("keep:0", {"x:0": handle})
