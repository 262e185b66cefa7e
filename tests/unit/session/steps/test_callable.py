"""Callables: a signature without look-ups (clause S7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.proto import RunMetadata
from graphmill.testing.proto_builders import graph_def, node_def

NODES = (
    node_def("a", "Placeholder", dtype="float32", shape=None),
    node_def("b", "Placeholder", dtype="float32", shape=None),
    node_def("diff", "Sub", "a", "b", T="float32"),
    node_def("neg", "Neg", "a", T="float32"),
    node_def("count", "Probe>Count", "a"),
    node_def("bad", "Probe>Raise", "a"),
)


@pytest.fixture
def session(probe_host: Any) -> Any:
    with graphmill.Session(graph=graph_def(*NODES), host=probe_host) as session:
        yield session


def test_s7_values_are_given_by_position(session: Any) -> None:
    assert session.make_callable("diff:0", ["a:0", "b:0"])(5.0, 3.0) == 2
    assert session.make_callable("diff:0", ["b:0", "a:0"])(5.0, 3.0) == -2
    assert session.make_callable("neg:0", ["a"])(5.0) == -5


@pytest.mark.parametrize(
    ("fetches", "expected"),
    [
        (["neg:0", "diff:0"], [-5, 2]),
        (("diff:0", "neg:0", "diff:0"), (2, -5, 2)),
        ({"d": "diff:0", "n": ["neg:0", "count"]}, {"d": 2, "n": [-5, None]}),
        ("a:0", 5),
    ],
)
def test_s7_results_have_the_structure_of_the_fetches(
    session: Any, fetches: Any, expected: Any
) -> None:
    assert session.make_callable(fetches, ["a:0", "b:0"])(5.0, 3.0) == expected


def test_s7_a_callable_without_feeds_reports_the_placeholder(session: Any) -> None:
    call = session.make_callable("neg:0")
    with pytest.raises(errors.InvalidArgumentError, match="must feed a value for placeholder"):
        call()


def test_s7_nothing_may_be_fetched(session: Any) -> None:
    call = session.make_callable({"a": []}, ["a:0"], accept_options=True)
    assert call(1.0, options=None, run_metadata=RunMetadata()) == {"a": []}
    with pytest.raises(errors.InvalidArgumentError, match="expected 1 values, got 0"):
        call()
    with pytest.raises(errors.InvalidArgumentError, match="options"):
        call(1.0, options=3)
    session.close()
    with pytest.raises(errors.CancelledError):
        call(1.0)


def test_s7_targets_run_as_well(session: Any, probe: Any) -> None:
    call = session.make_callable("neg:0", ["a:0"], targets=["count"])
    assert [call(1.0), call(2.0)] == [-1, -2]
    assert probe.count == 2
    only = session.make_callable([], ["a:0"], targets="count")
    assert only(1.0) == []
    assert probe.count == 3


@pytest.mark.parametrize("values", [(), (1.0, 2.0)])
def test_s7_the_number_of_values_must_fit(session: Any, values: tuple) -> None:
    call = session.make_callable("neg:0", ["a:0"])
    with pytest.raises(errors.InvalidArgumentError, match=r"takes 1 values \(a:0\), \d given"):
        call(*values)
    assert call(3.0) == -3


def test_s7_values_are_checked_in_each_call(session: Any) -> None:
    call = session.make_callable("neg:0", ["a:0"])
    with pytest.raises(errors.InvalidArgumentError, match="'a:0'"):
        call("text")
    assert list(call(np.ones(2, np.float32))) == [-1, -1]


def test_s7_names_are_looked_up_when_it_is_made(session: Any) -> None:
    for arguments in (("nge:0", ["a:0"]), ("neg:0", ["aa:0"])):
        with pytest.raises(errors.NotFoundError):
            session.make_callable(*arguments)
    with pytest.raises(errors.NotFoundError):
        session.make_callable("neg:0", ["a:0"], targets=["cuont"])


def test_s7_after_an_error_it_continues(session: Any, probe: Any) -> None:
    call = session.make_callable(["neg:0", "bad:0"], ["a:0"])
    for _ in range(2):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            call(1.0)
        assert caught.value.node == "bad"
    assert session.make_callable("neg:0", ["a:0"])(1.0) == -1


def test_s7_a_callable_accepts_options_and_metadata(session: Any) -> None:
    call = session.make_callable("neg:0", ["a:0"], options={"trace_level": "FULL_TRACE"})
    metadata = RunMetadata()
    assert call(1.0, run_metadata=metadata) == -1
    assert metadata.step_stats.dev_stats[0].node_stats[0].node_name == "neg"
    assert call(1.0) == -1
    untraced = session.make_callable("neg:0", ["a:0"])
    metadata = RunMetadata()
    assert untraced(1.0, run_metadata=metadata) == -1
    assert metadata == RunMetadata()


def test_s7_a_callable_outlives_extension_of_the_graph(session: Any) -> None:
    call = session.make_callable("neg:0", ["a:0"])
    session.extend(graph_def(node_def("new", "Neg", "neg", T="float32")))
    assert call(1.0) == -1
    assert session.make_callable("new:0", ["a:0"])(1.0) == 1
