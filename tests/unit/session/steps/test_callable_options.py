"""Callables from `CallableOptions` (clause S7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.explain import explain_all
from graphmill.ops import math
from graphmill.testing.fakes import strict_device

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
BOXED = "/job:localhost/replica:0/task:0/device:BOXED:0"


@pytest.fixture
def session() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = graph.placeholder("float32", [], name="y")
        a = math.add_v2(x, 1.0, name="a")
        b = math.mul(y, 10.0, name="b")
        math.add_v2(b, a, name="c")
        graphmill.no_op(name="t")
    with graphmill.Session(graph=graph) as session:
        yield session


def joined(source: str, target: str) -> dict[str, str]:
    return {"from_tensor": source, "to_tensor": target}


def test_feeds_are_ordered_and_fetches_are_a_list_s7(session: Any) -> None:
    options = {"feed": ["y", "x:0"], "fetch": ["c", "a:0", "a:0"], "target": ["t"]}
    call = session.make_callable_from_options(options)
    assert call(2.0, 1.0) == [22.0, 2.0, 2.0]
    assert call(0.0, 3.0) == [4.0, 4.0, 4.0]
    message = graphmill.CallableOptions(feed=["x:0"], target=["t"])
    assert session.make_callable_from_options(message)(1.0) == []
    with pytest.raises(InvalidArgumentError, match="takes 2 values"):
        call(1.0)


def test_run_options_hold_for_each_call_s7(session: Any) -> None:
    options = {"feed": ["x:0"], "fetch": ["a:0"], "run_options": {"trace_level": "FULL_TRACE"}}
    metadata = graphmill.RunMetadata()
    session.make_callable_from_options(options)(1.0, run_metadata=metadata)
    assert metadata.step_stats.dev_stats


@pytest.mark.parametrize(("source", "found"), [("a:0", 22.0), ("x:0", 12.0), ("a", 22.0)])
def test_connection_replaces_one_tensor_by_another_s7(
    session: Any, source: str, found: float
) -> None:
    options = {"feed": ["x:0"], "fetch": ["c:0"], "tensor_connection": [joined(source, "y:0")]}
    assert session.make_callable_from_options(options)(1.0) == [found]
    assert session.run("c:0", {"x:0": 1.0, "y:0": 0.0}) == 2.0  # others are as they were


def test_callable_with_connection_is_rebuilt_like_others_s7(session: Any) -> None:
    options = {"feed": ["x:0"], "fetch": ["c:0"], "tensor_connection": [joined("a:0", "y:0")]}
    call = session.make_callable_from_options(options)
    for _ in range(8):
        assert call(1.0) == [22.0]
        graphmill.default_host().background.wait_idle()
    (record,) = explain_all(session)
    assert record.num_steps == 8
    assert record.num_interpreted < 8
    assert record.reason == ""


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tensor_connection": [joined("c:0", "y:0")]}, InvalidArgumentError, "create a cycle"),
        (
            {"tensor_connection": [joined("a:0", "y:0"), joined("x:0", "y:0")]},
            InvalidArgumentError,
            "fed more than once",
        ),
        ({"tensor_connection": [joined("a:0", "x:0")]}, InvalidArgumentError, "fed more than once"),
        (
            {"tensor_connection": [joined("a:0", "c:0")]},
            InvalidArgumentError,
            "both fed and fetched",
        ),
        ({"feed": ["x:0", "c"]}, InvalidArgumentError, "both fed and fetched"),
        ({"feed": ["x:0", "x"]}, InvalidArgumentError, "fed more than once"),
        ({"tensor_connection": [joined("a:3", "y:0")]}, InvalidArgumentError, "unknown tensor"),
        ({"tensor_connection": [joined("a:0", "z:0")]}, NotFoundError, "does not exist"),
        ({"feed_devices": {"x:0": "/cpu:0"}}, InvalidArgumentError, "does not exist; expected"),
        ({"feed_devices": {"x:0": "nonsense"}}, InvalidArgumentError, "Invalid device name"),
        ({"fetch_devices": {"z:0": CPU}}, InvalidArgumentError, "was not found in the Graph"),
    ],
)
def test_invalid_callable_options_are_reported_s7(
    session: Any, options: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        session.make_callable_from_options({"feed": ["x:0"], "fetch": ["c:0"], **options})


def test_connections_in_a_ring_are_a_cycle_s7(session: Any) -> None:
    ring = [joined("b:0", "x:0"), joined("a:0", "y:0")]
    with pytest.raises(InvalidArgumentError, match="create a cycle"):
        session.make_callable_from_options({"fetch": ["c:0"], "tensor_connection": ring})


def test_device_fetch_is_fed_without_copy_s7() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/device:BOXED:0"):
        x = graph.placeholder("float32", [2], name="x")
        math.mul(x, 2.0, name="y")
    host = graphmill.Host(plugins=[strict_device])
    config = {"device_count": {"BOXED": 1}}
    options = {"feed": ["x:0"], "fetch": ["y:0"], "fetch_skip_sync": True}
    there = {"feed_devices": {"x:0": BOXED}, "fetch_devices": {"y:0": BOXED}}
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        call = session.make_callable_from_options({**options, **there})
        (held,) = call([1.0, 2.0])
        assert isinstance(held, strict_device.Box)
        (again,) = call(held)
        back = session.make_callable_from_options({**options, "feed_devices": {"x:0": BOXED}})
        assert back(again)[0].tolist() == [8.0, 16.0]
        with pytest.raises(InvalidArgumentError, match="has dtype float64"):
            call(strict_device.Box(held.owner, np.zeros(2)))
