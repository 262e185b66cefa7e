"""`graphmill explain` says why each node got its device and kernel."""

from __future__ import annotations

import json

import graphmill
from graphmill.explain.step import explain
from graphmill.ops import math


def test_each_node_is_told(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf2"), "--json")
    assert outcome.code == 0, outcome.err
    nodes = json.loads(outcome.out)["nodes"]
    assert nodes
    kernels = [node for node in nodes if node["kernel"]]
    assert all(node["plugin"].startswith("plugin 'kernels'") for node in kernels)
    assert all(node["device"].endswith("CPU:0") and node["placement"] for node in nodes)


def test_the_text_is_a_table_with_a_summary(graphmill_cli, digits) -> None:
    outcome = graphmill_cli("explain", str(digits / "saved_model_tf1"))
    assert "why there" in outcome.out
    assert " on CPU:0" in outcome.out
    assert " interpreted" in outcome.out.strip().splitlines()[-1]


def test_placement_and_rejected_kernels_are_told() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2, 2], name="x")
        with graph.device("/device:CPU:1"):
            y = math.mat_mul(x, x, name="y")
    config = graphmill.ConfigProto(device_count={"CPU": 2})
    with graphmill.Session(graph=graph, config=config) as session:
        records = {r.node: r for r in explain(session, fetches=[y.name], feeds=[x.name])}
    assert records["y"].device.endswith("CPU:1")
    assert records["y"].placement == "requested"
    assert records["y"].backend == "numpy"
    assert records["y"].tier == "interpreted"
    assert "y (MatMul)" in str(records["y"])
