"""A plugin with a missing library does not affect other kernels (E11)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest

import graphmill
from graphmill import ops
from graphmill.registry import PluginWarning

if TYPE_CHECKING:
    from collections.abc import Callable

NAME = r"kernel module 'fake_npulib.kernels' .* No module named 'npulib_that_nobody_has'.*npulib"


@pytest.fixture
def host(use_dists: Callable[..., None]) -> graphmill.Host:
    use_dists("missing_backend")
    return graphmill.Host()


def test_graph_falls_back_to_other_kernels_e11(host: graphmill.Host) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        y = ops.math.add_v2(x, 1.0)
        z = y + x
    with graphmill.Session(graph=graph, host=host) as session:
        with pytest.warns(PluginWarning, match=NAME) as caught:
            assert session.run([y, z], {x: 2.0}) == [3.0, 5.0]
        assert session.run(y, {x: 2.0}) == 3.0
    assert len(caught) == 1
    assert "fake_npulib.kernels_of_npu" not in str(caught[0].message)


def test_op_only_in_missing_backend_names_the_reason_e11(host: graphmill.Host) -> None:
    graph_def = graphmill.GraphDef()
    node = graph_def.node.add(name="x", op="Placeholder")
    node.attr["dtype"].type = 1
    graph_def.node.add(name="y", op="Npulib>Twice", input=["x"])
    with graphmill.Session(graph=graph_def, host=host) as session, warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)
        with pytest.raises(graphmill.errors.NotFoundError, match=NAME):
            session.run("y:0", {"x:0": 1.0})


def test_all_ops_with_kernels_can_be_listed_e11(host: graphmill.Host) -> None:
    with pytest.warns(PluginWarning, match="npulib_that_nobody_has"):
        assert "AddV2" in host.kernels.ops()
    assert "Npulib>Twice" not in host.kernels.ops()
