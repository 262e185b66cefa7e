"""Nodes inside functions can be fetched, watched and traced by the names in `explain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, proto
from graphmill.explain.step import explain
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from collections.abc import Iterator

SHIFT = "shift(x: float32) -> (float32): one = Const(dtype=float32, value='float32: 1'); "
SHIFT += "more = AddV2(x, one); y = Relu(more); return y"
OUTER = "outer(x: float32) -> (float32): half = Neg(x); "
OUTER += "call = PartitionedCall([half], Tout=[float32], f=shift); y = Exp(call); return y"
AGAIN = "again(x: float32) -> (float32): "
AGAIN += "y = PartitionedCall([x], Tout=[float32], f=again); return y"
LESS = (
    "less(i: int32) -> (bool): n = Const(dtype=int32, value='int32: 2'); y = Less(i, n); return y"
)
NEXT = "next(i: int32) -> (int32): one = Const(dtype=int32, value='int32: 1'); "
NEXT += "j = AddV2(i, one); return j"
FUNCTIONS = (SHIFT, OUTER, AGAIN, LESS, NEXT)
NODES = (
    "f = PartitionedCall([x], Tout=[float32], f=outer)",
    "g = StatefulPartitionedCall([f], Tout=[float32], f=shift)",
    "loop = While([i], T=[int32], cond=less, body=next)",
    "choice = If(p, [x], Tin=[float32], Tout=[float32], then_branch=shift, else_branch=outer)",
    "endless = PartitionedCall([x], Tout=[float32], f=again)",
    "apart = PartitionedCall([x], Tout=[float32], f=shift, executor_type='DEFAULT')",
    "sides = Switch(x, p)",
    "dead = PartitionedCall([sides[1]], Tout=[float32], f=shift)",
    "y = Identity(g)",
)
X = {"x:0": -1.0}


@pytest.fixture
def host() -> graphmill.Host:
    return graphmill.Host()


@pytest.fixture
def session(host: graphmill.Host) -> Iterator[graphmill.Session]:
    maker = GraphMaker(host.ops)
    for name, value in {"x": "float32: 0", "i": "int32: 0", "p": "bool: True"}.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in FUNCTIONS:
        maker.function(parse_function(text, {}))
    for text in NODES:
        maker.node(parse_node(text, {}))
    with graphmill.Session(graph=maker.graph_def, host=host) as session:
        yield session


def test_every_node_that_explain_prints_can_be_fetched(session: graphmill.Session) -> None:
    expected = session.run("y:0", X)
    records = explain(session, fetches=["y:0"], feeds=["x:0"])
    names = [r.node for r in records if "/" in r.node and not r.node.startswith("_")]
    assert {"f/half", "f/call/more", "f/y", "g/y"} <= set(names)
    for name in names:
        value, y = session.run([f"{name}:0", "y:0"], X)
        assert value is not None
        assert y == expected


def test_inner_values_are_those_of_the_step(session: graphmill.Session) -> None:
    fetches = ["f/half:0", "f/call/more:0", "f/call:0", "f:0", "g/more:0", "g:0", "y:0"]
    values = session.run(fetches, X)
    e = np.exp(np.float32(2))
    np.testing.assert_allclose(values, [1, 2, 2, e, e + 1, e + 1, e + 1], rtol=1e-6)
    assert session.run("f/half", X) is None  # as an operation: run, and not fetched


def test_only_nodes_needed_by_an_inner_fetch_run(session: graphmill.Session) -> None:
    names = {r.node for r in explain(session, fetches=["f/call/more:0"], feeds=["x:0"])}
    assert {"f/half", "f/call/more"} <= names
    assert not any(name.startswith("g") or name == "f/y" for name in names)


def test_inner_tensors_can_be_fed(session: graphmill.Session) -> None:
    assert session.run("f/call/y:0", {"f/half:0": 4.0}) == 5.0


def test_partial_runs_fetch_inner_nodes(session: graphmill.Session) -> None:
    handle = session.partial_run_setup(["f/half:0", "y:0"], ["x:0"])
    assert session.partial_run(handle, "f/half:0", X) == 1.0
    assert session.partial_run(handle, "y:0") == session.run("y:0", X)


def test_compiled_steps_fetch_inner_nodes(host: graphmill.Host, session: graphmill.Session) -> None:
    graph_def = session.graph.as_graph_def()
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph_def, config=config, host=host) as compiled:
        for _ in range(4):
            np.testing.assert_allclose(
                compiled.run(["f/call/more:0", "y:0"], X),
                session.run(["f/call/more:0", "y:0"], X),
                rtol=1e-6,
            )


@pytest.mark.parametrize(
    ("wrong", "suggested"),
    [
        ("f/call/mor:0", "'f/call/more'"),
        ("f/cal/more:0", "'f/call/more'"),
        ("call/more:0", "'f/call/more'"),
        ("f/call/more/y:0", "'f/call/more'"),
    ],
)
def test_wrong_name_has_near_names_inside_functions(
    session: graphmill.Session, wrong: str, suggested: str
) -> None:
    with pytest.raises(errors.NotFoundError, match=suggested) as caught:
        session.run(wrong, X)
    assert isinstance(caught.value, ValueError)  # as TensorFlow's Python layer raises


@pytest.mark.parametrize(
    ("name", "reason", "node"),
    [
        ("loop/j:0", "once for each iteration", "loop"),
        ("choice/more:0", "runs one of its functions", "choice"),
        ("apart/more:0", "executor of its own", "apart"),
        ("dead/more:0", "control flow of version 1", "dead"),
    ],
)
def test_nodes_without_a_value_of_their_own_are_refused(
    session: graphmill.Session, name: str, reason: str, node: str
) -> None:
    with pytest.raises(errors.UnimplementedError, match=reason) as caught:
        session.run(name, {**X, "i:0": 0, "p:0": True})
    assert caught.value.node == node


def test_recursive_function_is_expanded_as_far_as_it_is_named(session: graphmill.Session) -> None:
    with pytest.raises(errors.NotFoundError, match="'endless/y/z'"):
        session.run("endless/y/z:0", X)


def _watching(name: str) -> Any:
    options = proto.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name=name, output_slot=-1, debug_ops=["DebugIdentity"], debug_urls=["callback://seen"]
    )
    return options


def _watched(host: graphmill.Host, session: graphmill.Session, name: str) -> dict[str, Any]:
    seen: list[Any] = []
    host.debug_callbacks["seen"] = seen.append
    session.run("y:0", X, options=_watching(name))
    return {watched.node_name: watched.value for watched in seen}


def test_inner_node_can_be_watched(host: graphmill.Host, session: graphmill.Session) -> None:
    assert _watched(host, session, "f/call/more") == {"f/call/more": 2.0}


def test_watch_of_all_nodes_sees_inner_nodes(
    host: graphmill.Host, session: graphmill.Session
) -> None:
    seen = _watched(host, session, "*")
    assert {"f/half", "f/call/one", "f/call/more", "f/call/y", "f/y", "g/y", "y"} <= set(seen)
    assert _watched(host, session, "f").keys() == {"f"}


def test_watch_of_a_node_inside_a_call_that_is_not_run_is_skipped(
    host: graphmill.Host, session: graphmill.Session
) -> None:
    assert _watched(host, session, "endless/y") == {}
    with pytest.raises(errors.NotFoundError, match="did you mean 'f/call/more'"):
        _watched(host, session, "f/call/mre")


def test_trace_names_inner_nodes(session: graphmill.Session) -> None:
    metadata = graphmill.RunMetadata()
    options = {"trace_level": "FULL_TRACE"}
    session.run(["f/call/more:0", "y:0"], X, options=options, run_metadata=metadata)
    (device,) = metadata.step_stats.dev_stats
    names = {stats.node_name for stats in device.node_stats}
    assert {"f/half", "f/call/more", "f/y", "g/y"} <= names
