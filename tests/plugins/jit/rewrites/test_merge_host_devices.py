"""Nodes of several CPU devices form one cluster; stateful ones stay (P3, R1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.ops import array, math, state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.graph.builder import Graph
    from graphmill.session.session import Session

TWO = {"device_count": {"CPU": 2}, "graphmill": {"jit": "eager"}}


@pytest.fixture
def graph() -> Iterator[Graph]:
    made = graphmill.Graph()
    with made.as_default():
        yield made


def devices(session: Session, *, hot: bool = True) -> dict[str, str]:
    """Return the device of each node of the last signature that ran, by name."""
    (made,) = session._impl._cache._sorted.values()
    items = (made.hot_items if hot else made.items) or ()
    return {node.name: item.device.name[-5:] for item in items for node in item.graph.nodes}


def placeholder(name: str, shape: tuple[int, ...] = (2,)) -> Any:
    return array.placeholder(dtype=graphmill.float32, shape=shape, name=name)


def test_two_towers_are_one_cluster(graph: Graph) -> None:
    with graph.device("/device:CPU:0"):
        x = placeholder("x")
        left = math.tanh(x, name="left")
    with graph.device("/device:CPU:1"):
        right = math.exp(left, name="right")
    with graph.device("/device:CPU:0"):
        total = math.add_v2(left, right, name="total")
    with graphmill.Session(graph=graph, config=TWO) as session:
        got = session.run(total, {x: np.float32([0, 1])})
        hot, cold = devices(session), devices(session, hot=False)
    np.testing.assert_allclose(got, np.tanh([0, 1]) + np.exp(np.tanh([0, 1])), rtol=1e-6)
    assert set(hot.values()) == {"CPU:0"}
    assert cold["right"] == "CPU:1"  # where traced steps show it


def test_a_variable_stays_on_its_device(graph: Graph) -> None:
    with graph.device("/device:CPU:1"):
        handle = state.var_handle_op(
            dtype=graphmill.float32, shape=[2], shared_name="v", name="handle"
        )
        step = state.assign_add_variable_op(handle, np.float32([1, 1]), name="step")
        with graph.control_dependencies([step]):
            value = state.read_variable_op(handle, dtype=graphmill.float32, name="value")
        start = state.assign_variable_op(handle, np.float32([0, 0]), name="start")
    with graph.device("/device:CPU:0"):
        twice = math.add_v2(value, value, name="twice")
    with graphmill.Session(graph=graph, config=TWO) as session:
        session.run([], targets=[start])
        assert session.run(twice).tolist() == [2, 2]
        assert session.run(twice).tolist() == [4, 4]
        managers = {d.name[-5:]: d.resource_mgr for d in session._impl.devices}
        assert not managers["CPU:0"].names()
        assert managers["CPU:1"].names()


def test_single_device_graph_is_unchanged(graph: Graph) -> None:
    x = placeholder("x")
    total = math.tanh(math.exp(x))
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
        session.run(total, {x: np.float32([0, 1])})
        assert set(devices(session).values()) == {"CPU:0"}
