"""A third-party package adds an op and a kernel by entry points, and a graph uses them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill

if TYPE_CHECKING:
    from collections.abc import Callable

    UseDists = Callable[..., None]

OP = "Downstream>MulAdd3"


def graph_def(dtype: graphmill.DType, device: str = "") -> graphmill.GraphDef:
    graph = graphmill.GraphDef()
    for name in "xyz":
        graph.node.add(name=name, op="Placeholder").attr["dtype"].type = dtype.enum
    node = graph.node.add(name="result", op=OP, input=["x", "y", "z"], device=device)
    node.attr["T"].type = dtype.enum
    node.attr["scale"].f = 2.0
    return graph


@pytest.fixture
def host(use_dists: UseDists) -> graphmill.Host:
    use_dists("good")
    return graphmill.Host()


def test_a_graph_with_its_op_runs(host: graphmill.Host) -> None:
    feeds = {"x:0": np.float32([1, 2]), "y:0": np.float32([3, 4]), "z:0": np.float32([5, 6])}
    with graphmill.Session(graph=graph_def(graphmill.dtypes.float32), host=host) as session:
        result = session.run("result:0", feeds)
    assert result.tolist() == [16, 28]
    assert result.dtype == np.float32


def test_its_constraints_are_checked_at_import(host: graphmill.Host) -> None:
    with pytest.raises(graphmill.errors.InvalidArgumentError, match="int32"):
        graphmill.Session(graph=graph_def(graphmill.dtypes.int32), host=host)


def test_op_is_unknown_without_the_plugin() -> None:
    with pytest.raises(graphmill.errors.NotFoundError, match="MulAdd3"):
        graphmill.Session(graph=graph_def(graphmill.dtypes.float32), host=graphmill.Host())


def test_disabled_by_the_environment_the_op_is_unknown(
    use_dists: UseDists, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_dists("good")
    monkeypatch.setenv("GRAPHMILL_DISABLE_PLUGINS", "downstream")
    with pytest.raises(graphmill.errors.NotFoundError, match="MulAdd3"):
        graphmill.Session(graph=graph_def(graphmill.dtypes.float32), host=graphmill.Host())


def test_its_device_runs_the_graph(host: graphmill.Host) -> None:
    graph = graph_def(graphmill.dtypes.float64, device="/device:NPU:0")
    with graphmill.Session(graph=graph, host=host) as session:
        assert session.run("result:0", {"x:0": 1.0, "y:0": 2.0, "z:0": 3.0}) == 10.0


def test_plugin_observes_step(host: graphmill.Host) -> None:
    with graphmill.Session(graph=graph_def(graphmill.dtypes.float64), host=host) as session:
        session.run("result:0", {"x:0": 1.0, "y:0": 2.0, "z:0": 3.0})
    seen = sys.modules["fake_downstream"].SEEN
    assert [event[0] for event in seen] == ["configure", "hello", "started", "finished"]
    started, finished = seen[2], seen[3]
    assert started[1].fetches == ("result:0",)
    assert finished[1] is started[1]
    assert finished[2] > 0
    assert finished[3] is None


def test_plugin_observes_failed_step(host: graphmill.Host) -> None:
    feeds = {"x:0": np.zeros(2), "y:0": np.zeros(3), "z:0": 0.0}
    with graphmill.Session(graph=graph_def(graphmill.dtypes.float64), host=host) as session:
        with pytest.raises(graphmill.errors.InvalidArgumentError) as caught:
            session.run("result:0", feeds)
        assert caught.value.plugin == "downstream"
        assert session.run("result:0", {"x:0": 1.0, "y:0": 2.0, "z:0": 3.0}) == 10.0
    event, _, _, error = sys.modules["fake_downstream"].SEEN[3]
    assert event == "finished"
    assert isinstance(error, graphmill.errors.InvalidArgumentError)
