"""Fetch structures (clause S6); the expected values are those of `tf.compat.v1.Session.run`."""

from __future__ import annotations

import dataclasses
import types
from collections import Counter, OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.graph.builder import Graph
from graphmill.session.steps.fetches import FetchPlan, feed_name, several, target_name
from graphmill.testing.proto_builders import const_def, graph_def, node_def


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Report:
    loss: Any
    step: Any = "b:0"


@pytest.fixture(scope="module")
def session() -> Any:
    nodes = (
        const_def("a", np.float32(1.5)),
        const_def("b", np.array([1, 2], np.int32)),
        node_def("n", "NoOp"),
    )
    with graphmill.Session(graph=graph_def(*nodes)) as session:
        yield session


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, np.ndarray):
        return type(found) is np.ndarray and np.array_equal(found, expected)
    if isinstance(expected, (list, tuple)):
        return type(found) is type(expected) and all(map(same, found, expected))
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(same(found[k], expected[k]) for k in expected)
    return type(found) is type(expected) and bool(found == expected)


A, B = np.float32(1.5), np.array([1, 2], np.int32)


@pytest.mark.parametrize(
    ("fetches", "expected"),
    [
        ("a:0", A),
        ("b:0", B),
        (b"a:0", A),
        ("n", None),
        ("a", None),
        ("^a", None),
        (["a:0", "b:0"], [A, B]),
        (("b:0", "a:0"), (B, A)),
        (["a:0", "a:0", "a:0"], [A, A, A]),
        (["a:0", ["b:0", ("a:0", "n")], {"k": "b:0"}], [A, [B, (A, None)], {"k": B}]),
        ({"z": "a:0", "y": ["b:0"]}, {"z": A, "y": [B]}),
        (Pair("a:0", "n"), Pair(A, None)),
        (["n"], [None]),
        ([], []),
        ((), ()),
        ({}, {}),
        ([[], {"k": ()}], [[], {"k": ()}]),
    ],
    ids=repr,
)
def test_s6_structure_fetch_is_returned_filled(session: Any, fetches: Any, expected: Any) -> None:
    assert same(session.run(fetches), expected)


def test_s6_dataclass_fetch_is_returned_filled(session: Any) -> None:
    report = session.run(Report("a:0"))
    assert type(report) is Report
    assert report.loss == A
    assert np.array_equal(report.step, B)


def test_s6_attrs_class_fetch_is_returned_filled(session: Any) -> None:
    """Fetches in an `attrs` class are returned in one, without an import of `attrs`."""

    class Attrs:
        __attrs_attrs__ = (types.SimpleNamespace(name="x"), types.SimpleNamespace(name="y"))

        def __init__(self, x: Any, y: Any) -> None:
            self.x, self.y = x, y

    found = session.run(Attrs("a:0", ["n"]))
    assert type(found) is Attrs
    assert (found.x, found.y) == (A, [None])


def test_s6_kinds_of_dicts_are_kept(session: Any) -> None:
    ordered = session.run(OrderedDict([("b", "a:0"), ("a", "a:0")]))
    assert type(ordered) is OrderedDict
    assert list(ordered) == ["b", "a"]
    default = session.run(defaultdict(list, {"k": "a:0"}))
    assert type(default) is defaultdict
    assert default["missing"] == []
    assert session.run(Counter({"k": "a:0"})) == {"k": A}
    assert session.run(types.MappingProxyType({"k": "a:0"})) == {"k": A}


def test_s6_list_subclass_is_returned_as_list_and_tuple_subclass_as_itself(
    session: Any,
) -> None:
    kinds = [type("L", (list,), {}), type("T", (tuple,), {})]
    found = [type(session.run(kind(["a:0"]))) for kind in kinds]
    assert found == [list, kinds[1]]


@pytest.mark.parametrize(
    ("fetch", "words"),
    [
        (None, "a fetch is None"),
        (["a:0", None], "a fetch is None"),
        (5, r"fetch 5 \(int\) is not a tensor, operation or name"),
        ({"a:0"}, "is not a tensor"),
        (NotImplemented, "is not a tensor"),
        (Report, "is not a tensor"),
        ("a:x", "'a:x' is not a tensor name"),
        ("a:", "'a:' is not a tensor name"),
    ],
    ids=repr,
)
def test_s6_invalid_fetch_is_invalid_argument(session: Any, fetch: Any, words: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=words):
        session.run(fetch)


@pytest.mark.parametrize(
    ("fetch", "words"),
    [
        ("aa:0", "fetch 'aa' does not exist: the graph has no such node; did you mean 'a'"),
        ("aa", "did you mean 'a'"),
        ("a:1", r"fetch 'a:1' does not exist: node 'a' \(op Const\) has 1 outputs"),
        ("n:0", "has 0 outputs"),
        ("_SOURCE", "'_SOURCE' does not exist"),
        ("_SINK:0", "'_SINK' does not exist"),
    ],
)
def test_s6_unknown_fetch_suggests_near_matches(session: Any, fetch: str, words: str) -> None:
    with pytest.raises(errors.NotFoundError, match=words):
        session.run(fetch)
    assert session.run("a:0") == A


def test_s6_structures_nested_too_deeply_are_a_typed_error(session: Any) -> None:
    fetches: Any = "a:0"
    for _ in range(100_000):
        fetches = [fetches]
    with pytest.raises(errors.InvalidArgumentError, match="nested too deeply"):
        session.run(fetches)
    while isinstance(fetches, list):  # taken apart by hand: its own deletion would go deep too
        fetches = fetches.pop()


def test_s6_each_tensor_is_fetched_once() -> None:
    plan = FetchPlan(["a:0", ("b:0", "a:0"), "n", "n"])
    assert plan.tensors == ("a:0", "b:0")
    assert plan.targets == ("n",)


def test_s6_tensors_and_operations_of_the_graph_are_fetches() -> None:
    graph = Graph()
    x = graph.constant(2.0, name="x")
    with graphmill.Session(graph=graph) as session:
        assert session.run([x, x.op, "x:0"]) == [2.0, None, 2.0]
        assert session.run(x, {x: 3.0}) == 3.0


def test_s6_a_tensor_of_another_graph_is_refused() -> None:
    """A tensor of another graph is refused, even if the graph has a tensor of its name."""
    graph, other = Graph(), Graph()
    graph.constant(1.0, name="x")
    stranger = other.constant(2.0, name="x")
    with graphmill.Session(graph=graph) as session:
        for call in (
            lambda: session.run(stranger),
            lambda: session.run(stranger.op),
            lambda: session.run("x:0", {stranger: 5.0}),
            lambda: session.run([], targets=[stranger.op]),
            lambda: session.make_callable("x:0", [stranger]),
        ):
            with pytest.raises(
                errors.InvalidArgumentError, match="does not belong to the session's graph"
            ):
                call()


def test_s6_graph_def_session_accepts_tensor_names() -> None:
    graph = Graph()
    x = graph.constant(1.0, name="x")
    with graphmill.Session(graph=graph.as_graph_def()) as session:
        assert session.run(x) == 1.0


def test_s6_names_of_feeds_and_targets_are_completed() -> None:
    assert (feed_name("x"), feed_name("x:1")) == ("x:0", "x:1")
    assert (target_name("n"), target_name("n:0"), target_name("^n")) == ("n", "n", "n")
    for name in (feed_name, target_name):
        with pytest.raises(errors.InvalidArgumentError, match="is not a tensor, operation or name"):
            name(5)


def test_s6_single_target_or_feed_needs_no_list(session: Any) -> None:
    assert list(several("n")) == ["n"]
    assert list(several(["n", "m"])) == ["n", "m"]
    assert session.run([], targets="n") == []
    assert session.make_callable("a:0", "a:0")(7.0) == 7.0


def test_s6_lists_and_tuples_of_names_keep_their_kind_and_order() -> None:
    """Lists and tuples of names keep their type and order, though plans are cached by names."""
    x = node_def("x", "Placeholder", dtype="float32", shape=None)
    y = node_def("y", "Neg", "x", T="float32")
    with graphmill.Session(graph=graph_def(x, y)) as session:
        for _ in range(2):
            assert isinstance(session.run(["y:0", "x:0"], {"x:0": 1.0}), list)
            assert isinstance(session.run(("x:0", "y:0"), {"x:0": 1.0}), tuple)
            first, second = session.run(["x:0", "y:0"], {"x:0": 1.0})
            assert (second, first) == tuple(session.run(["y:0", "x:0"], {"x:0": 1.0}))


def test_fetch_that_is_fed_is_an_array_as_in_tensorflow() -> None:
    graph = graphmill.Graph()
    x = graph.placeholder("int32", [], name="x")
    text = graph.placeholder("string", [], name="text")
    doubled = graph.create_op("AddV2", [x, x], name="doubled")
    fed = np.array([1.0, 2.0], np.float32)
    rows = graph.placeholder("float32", [2], name="rows")
    with graphmill.Session(graph=graph) as session:
        feeds = {x: 3, text: "a", rows: fed}
        values = session.run([x, text, rows, doubled.outputs[0]], feeds)
    assert [type(value) for value in values] == [np.ndarray, np.ndarray, np.ndarray, np.int32]
    assert (values[0].dtype, values[1].dtype) == (np.int32, object)
    assert (values[0].shape, values[1].item()) == ((), b"a")
    values[2][0] = 9.0
    assert fed.tolist() == [1.0, 2.0]
