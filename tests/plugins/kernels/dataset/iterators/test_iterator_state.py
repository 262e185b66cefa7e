"""Restoring iterators: after errors, and into iterators of other pipelines."""

from __future__ import annotations

import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

NODES = r"""
[[SerializeIterator]]
feed = { n = "int64: 5" }
functions = [
  "f(x: int64) -> (int64): z = Const(dtype=int64, value='int64: 6'); y = FloorDiv(z, x); return y",
]
nodes = [
  "zero = Const(dtype=int64, value='int64: 0')",
  "one = Const(dtype=int64, value='int64: 1')",
  "r = RangeDataset(zero, n, one, output_types=[int64], output_shapes=[[]])",
  "d = MapDataset(r, [], f=f, Targuments=[], output_types=[int64], output_shapes=[[]])",
  "h = IteratorV2(shared_name='', container='', output_types=[int64], output_shapes=[[]])",
  "a = MakeIterator(d, h)",
  "x = IteratorGetNext(h, output_types=[int64], output_shapes=[[]])",
  "s = SerializeIterator(h)",
  "t = DeserializeIterator(h, s)",
  "o = OptionalNone()",
  "w = DeserializeIterator(h, o)",
  "p = Const(dtype=string, value='string: \"x\"')",
  "k = Const(dtype=string, value='string: [\"state\"]')",
  "e = Const(dtype=string, value='string: [\"\"]')",
  "c = SaveV2(p, k, e, [s])",
  "q = RestoreV2(p, k, e, dtypes=[variant])",
  "u = DeserializeIterator(h, q)",
]
run = ["a"]
"""


@pytest.fixture
def session(graphmill_host):
    (case,) = parse_cases(NODES, "t")
    graph = case_graph(case, graphmill_host.ops)
    with graphmill.Session(graph=graph.graph_def, host=graphmill_host) as made:
        (feed,) = graph.feeds
        made.run([], {feed: 5}, targets=["a"])
        yield made


def test_an_element_that_failed_counts(session):
    with pytest.raises(errors.InvalidArgumentError):
        session.run("x:0")
    assert session.run("x:0") == 6
    session.run([], targets=["t"])
    assert [session.run("x:0") for _ in range(3)] == [3, 2, 1]


def test_a_state_survives_in_a_checkpoint(graphmill_host, tmp_path, monkeypatch):
    pytest.importorskip("google_crc32c")
    monkeypatch.chdir(tmp_path)
    (case,) = parse_cases(NODES, "t")
    graph = case_graph(case, graphmill_host.ops)
    (feed,) = graph.feeds
    with graphmill.Session(graph=graph.graph_def, host=graphmill_host) as saving:
        saving.run([], {feed: 5}, targets=["a"])
        with pytest.raises(errors.InvalidArgumentError):
            saving.run("x:0")
        assert saving.run("x:0") == 6
        saving.run([], targets=["c"])
    with graphmill.Session(graph=graph.graph_def, host=graphmill_host) as restoring:
        restoring.run([], {feed: 5}, targets=["a"])
        restoring.run([], targets=["u"])
        assert [restoring.run("x:0") for _ in range(3)] == [3, 2, 1]


def test_the_end_is_restored(session):
    with pytest.raises(errors.InvalidArgumentError):
        session.run("x:0")
    for _ in range(4):
        session.run("x:0")
    with pytest.raises(errors.OutOfRangeError):
        session.run("x:0")
    session.run([], targets=["t"])
    with pytest.raises(errors.OutOfRangeError):
        session.run("x:0")


def test_a_variant_that_holds_something_else_is_refused(session):
    with pytest.raises(errors.InvalidArgumentError, match="holds the state of an iterator"):
        session.run([], targets=["w"])
