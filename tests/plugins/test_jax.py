"""Options of JAX that an application sets do not change how graphs run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.small_graphs import HotSession, graph_def

import graphmill
from graphmill import ops

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

if TYPE_CHECKING:
    from collections.abc import Iterator

GRAPH = graph_def(
    "k = Const(dtype=float32, value='float32[3] fill 3')",
    "log = Log(x)",
    "sum = AddV2(log, k)",
    "product = MatMul(x, sum)",
    x="float32[3, 3]",
)
X = np.array([[0, -1, 1]] * 3, np.float32)
OPTIONS = {
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
    "jax_debug_nans": True,
    "jax_debug_infs": True,
    "jax_disable_jit": True,
    "jax_transfer_guard": "disallow",
    "jax_transfer_guard_host_to_device": "disallow_explicit",
}


@pytest.fixture(params=OPTIONS)
def option(request: pytest.FixtureRequest) -> Iterator[str]:
    """Set an option of JAX."""
    before = getattr(jax.config, request.param)
    jax.config.update(request.param, OPTIONS[request.param])
    yield request.param
    jax.config.update(request.param, "allow" if "guard" in request.param else before)


@pytest.mark.filterwarnings("error")
def test_compiled_steps_do_not_depend_on_options(option: str) -> None:
    del option
    with HotSession(GRAPH) as session:
        results = [session.run("product:0", {"x:0": X}) for _ in range(5)]
        assert "compiled" in [one.tier for c in session.clusters for one in c.signatures]
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    assert np.isnan(results[0][:, :2]).all()


def test_steps_on_jax_devices_do_not_depend_on_options(option: str) -> None:
    del option
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/device:XLA_CPU:0"):
        x = graph.placeholder("float32", [3, 3], name="x")
        y = ops.math.add_v2(ops.math.log(x), graph.constant([3.0, 3.0, 3.0]))
    config = {"device_count": {"XLA_CPU": 1}}
    with graphmill.Session(graph=graph, config=config) as session:
        result = session.run(y, {x: X})
    np.testing.assert_array_equal(result, [[-np.inf, np.nan, 3]] * 3)


@pytest.mark.parametrize(
    "option", ["jax_numpy_rank_promotion", "jax_numpy_dtype_promotion"], indirect=True
)
def test_exported_functions_broadcast(option: str) -> None:
    del option
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [3, 3], name="x")
        y = ops.math.add_v2(x, graph.constant([3.0, 3.0, 3.0]))
    with graphmill.Session(graph=graph) as session:
        function: Any = graphmill.export.convert(session, "jax", {"x": x}, {"y": y})
    with jax.enable_x64(True):
        np.testing.assert_array_equal(jax.jit(function)({}, {"x": X})["y"], X + 3)
