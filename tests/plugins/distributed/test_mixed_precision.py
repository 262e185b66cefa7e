"""`auto_mixed_precision` acts in sessions on servers as in those of the process."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill import ops

pytest.importorskip("grpc")
pytest.importorskip("google_crc32c")
X = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


@pytest.mark.parametrize(
    "field", ["auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_cpu"]
)
def test_server_applies_the_same_mixed_precision_as_a_local_session(
    field: str, monkeypatch
) -> None:
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4, 4], name="x")
        product = ops.math.mat_mul(x, x, name="product")
        ops.array.identity(ops.math.mat_mul(ops.nn.relu(product), x), name="out")
    config = {"graph_options": {"rewrite_options": {field: "ON"}}}
    exact = np.maximum(X @ X, 0) @ X
    with graphmill.Server() as server:
        for fetch in ("product:0", "out:0"):
            with graphmill.Session(graph=graph, config=config) as session:
                here = session.run(fetch, {"x:0": X})
            with graphmill.Session(server.target, graph=graph, config=config) as session:
                np.testing.assert_array_equal(session.run(fetch, {"x:0": X}), here)
    assert np.abs(here - exact).max() > 1e-4
