"""Clusters compute the results of their nodes, compiled or not."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import graphmill
from graphmill import errors
from graphmill.ops import array, math, nn
from graphmill.testing.model_case import ModelCase

DEVICE = "/device:TORCH:0"
MODELS = os.environ.get("GRAPHMILL_BENCH_MODELS", "")
X = np.array([[1, -2], [3, 4]], np.float32)
HOWS = ["none", "eager"]


def config(how: str = "none", count: int = 1) -> graphmill.ConfigProto:
    made = graphmill.ConfigProto(device_count={"TORCH": count}, allow_soft_placement=True)
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="torch")
    entry.parameter_map["compile"].s = how.encode()
    return made


def ops_of(graph: graphmill.Graph, feeds, fetches="y:0", how="none", count=1):
    """Run a graph; return the result and the ops that ran on PyTorch."""
    metadata = graphmill.RunMetadata()
    options = graphmill.RunOptions(output_partition_graphs=True, timeout_in_ms=20_000)
    with graphmill.Session(graph=graph, config=config(how, count)) as session:
        got = session.run(fetches, feeds, options=options, run_metadata=metadata)
    nodes = [n for part in metadata.partition_graphs for n in part.node if "TORCH" in n.device]
    return got, [node.op for node in nodes]


def layers() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        x = graph.placeholder("float32", [None, 2], name="x")
        product = math.mat_mul(x, graph.constant(X), name="product")
        y = nn.relu(nn.bias_add(product, graph.constant([1.0, -20.0])))
        array.identity(math.mat_mul(y, graph.constant(X), name="last"), name="y")
    return graph


@pytest.mark.parametrize("how", HOWS)
def test_connected_nodes_become_one_node(how: str) -> None:
    """Connected nodes become one cluster node (clause P5)."""
    got, ops = ops_of(layers(), {"x:0": X}, how=how)
    np.testing.assert_allclose(got, np.maximum(X @ X + np.float32([1, -20]), 0) @ X)
    assert ops.count("Torch>Cluster") == 1
    assert "MatMul" not in ops


@pytest.mark.parametrize("how", HOWS)
def test_explain_reports_the_fate_of_a_node(how: str) -> None:
    with graphmill.Session(graph=layers(), config=config(how)) as session:
        records = session.explain("y:0", ["x:0"]).nodes
    (cluster,) = (record for record in records if record.op == "Torch>Cluster")
    assert cluster.tier == ("straight-line" if how == "none" else "compiled")
    assert cluster.cluster == cluster.node


def test_nothing_is_clustered_without_the_setting() -> None:
    _, ops = ops_of(layers(), {"x:0": X}, how="")
    assert "Torch>Cluster" not in ops
    assert ops.count("MatMul") == 2


@pytest.mark.parametrize("how", HOWS)
def test_inner_fetches_are_outputs(how: str) -> None:
    (product, y), _ = ops_of(layers(), {"x:0": X}, ["product:0", "y:0"], how=how)
    np.testing.assert_allclose(product, X @ X)
    np.testing.assert_allclose(y, np.maximum(X @ X + np.float32([1, -20]), 0) @ X)


@pytest.mark.parametrize("how", HOWS)
def test_an_error_names_the_node_inside(how: str) -> None:
    """An error names the node of the user's graph that failed (clause S12)."""
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        a, b = (graph.placeholder("float32", name=name) for name in "ab")
        array.identity(math.mat_mul(nn.relu(a), b, name="culprit"), name="y")
    with graphmill.Session(graph=graph, config=config(how)) as session:
        with pytest.raises(errors.InvalidArgumentError, match="Matrix size-incompatible") as caught:
            session.run("y:0", {"a:0": X, "b:0": X[:1]})
        assert (caught.value.node, caught.value.op_type) == ("culprit", "MatMul")
        assert session.run("y:0", {"a:0": X, "b:0": X}).shape == (2, 2)


def test_no_cluster_waits_for_later_nodes() -> None:
    """A cluster does not contain both ends of a path that crosses another device."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.device(DEVICE):
            a = math.exp(x * 0.5)
        with graph.device("/device:CPU:0"):
            b = math.floor(a)
        with graph.device(DEVICE):
            array.identity(math.tanh(a * 2.0) + math.tanh(b * 1.0), name="y")
    got, ops = ops_of(graph, {"x:0": np.float32(1)})
    expected = np.tanh(np.exp(0.5) * 2) + np.tanh(np.floor(np.exp(0.5)))
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert "Torch>Cluster" in ops


def test_control_edges_stay() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        v = graphmill.Variable(np.float32(1), name="v")
        x = graph.placeholder("float32", name="x")
        more = v.assign_add(math.exp(x * 0.0))
        with graph.control_dependencies([more]):
            y = math.tanh(x * 1.0)
        with graph.control_dependencies([y]):
            array.identity(v.read_value() + 0.0, name="y")
        start = v.initializer
    with graphmill.Session(graph=graph, config=config()) as session:
        session.run(start)
        assert session.run("y:0", {"x:0": 3.0}) == 2.0
        assert session.run("y:0", {"x:0": 3.0}) == 3.0


def test_v1_loop_is_unchanged() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        x = graph.placeholder("float32", [], name="x")
        _, total = graphmill.while_loop(
            lambda i, _: math.less(i, 5), lambda i, t: (i + 1, math.tanh(t * 2.0)), [0, x]
        )
        array.identity(total, name="y")
    _, ops = ops_of(graph, {"x:0": 1.0})
    assert "Torch>Cluster" not in ops


@pytest.mark.skipif(not MODELS, reason="GRAPHMILL_BENCH_MODELS is not set")
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", ["mobilenet_v2_b1", "bert_encoder", "cnn_train_step"])
def test_whole_models_are_right(name: str, how: str, tmp_path, graphmill_host) -> None:
    case = ModelCase(Path(MODELS) / name, tmp_path)
    graph = graphmill.GraphDef()
    graph.ParseFromString((Path(MODELS) / name / "graph.pb").read_bytes())
    for node in graph.node:
        node.device = DEVICE
    with graphmill.Session(graph=graph, host=graphmill_host, config=config(how)) as session:
        for run in case.spec.get("init") or ():
            session.run([], targets=run["targets"])
        for step in range(min(case.steps, 3)):
            assert case.run_step(session, step).problem == "", f"step {step}"
