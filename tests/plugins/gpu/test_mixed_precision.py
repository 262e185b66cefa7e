"""`auto_mixed_precision` lets GPUs compute in float16; JAX's CPU devices stand in for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, ops, proto
from graphmill_plugins._jax import platform_devices
from graphmill_plugins.gpu import device as gpu

pytestmark = pytest.mark.jax
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def cpus_for_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "may_have_gpu", lambda: True)
    monkeypatch.setattr(gpu, "platform_devices", lambda _: platform_devices("cpu"))


def run(graph: Any, toggle: str, jit: str) -> tuple[Any, dict[str, str]]:
    """Return the result, and the types in which the products were computed."""
    config = {
        "allow_soft_placement": True,
        "graph_options": {"rewrite_options": {"auto_mixed_precision": toggle}},
        "graphmill": {"jit": jit},
    }
    metadata = proto.RunMetadata()
    options = proto.RunOptions(output_partition_graphs=True)
    with graphmill.Session(graph=graph, config=config) as session:
        value = session.run("out:0", {"x:0": X}, options, metadata)
    nodes = [node for part in metadata.partition_graphs for node in part.node]
    types = {n.name: dtypes.as_dtype(n.attr["T"].type).name for n in nodes if n.op == "MatMul"}
    return value, types


@pytest.mark.parametrize("jit", ["off", "eager"])
def test_products_on_a_gpu_are_computed_in_float16(jit: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        with graph.device("/device:GPU:0"):
            on_gpu = ops.math.mat_mul(x, x, name="on_gpu")
        with graph.device("/device:CPU:0"):
            on_cpu = ops.math.mat_mul(x, x, name="on_cpu")
            ops.array.identity(ops.math.sub(on_gpu, on_cpu), name="out")
    exact, _ = run(graph, "OFF", jit)
    value, types = run(graph, "ON", jit)
    if jit == "off":
        assert types == {"on_gpu": "float16", "on_cpu": "float32"}
    assert np.abs(exact).max() < 1e-5
    assert 1e-5 < np.abs(value).max() < 0.02
