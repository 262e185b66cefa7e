"""PyTorch as a device passes the suites and computes correct results for whole models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

import graphmill
from graphmill import errors
from graphmill.ops import nn
from graphmill.testing.conformance import DeviceTests, KernelTests, TierTests
from graphmill.testing.model_case import ModelCase

DEVICE = "/device:TORCH:0"
MODELS = os.environ.get("GRAPHMILL_BENCH_MODELS", "")
CASES = ["mobilenet_v2_b1", "resnet50_b1", "inception_v3_b1", "bert_encoder"]
CASES += ["cnn_train_step", "mlp_train_step"]


class TestTorch(DeviceTests):
    device = DEVICE


class TestTorchTiers(TierTests):
    device = DEVICE
    backend = "torch"


class TestTorchKernels(KernelTests):
    device = DEVICE
    exclude: ClassVar[dict[str, str]] = dict.fromkeys(
        ("TensorArrayScatterV3/edges.0/bfloat16/0", "TensorArrayGatherV3/edges.0/bfloat16/0"),
        "NumPy cannot convert a list of other libraries' bfloat16 scalars to an array",
    )


@pytest.mark.parametrize("op", ["conv2d", "depthwise_conv2d_native"])
def test_a_convolution_of_another_rank_is_refused(op: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(DEVICE):
        x, w = (graph.placeholder("float32", name=name) for name in "xw")
        getattr(nn, op)(x, w, strides=[1, 1, 1, 1], padding="SAME", name="y")
    config = graphmill.ConfigProto(device_count={"TORCH": 1})
    feeds = {"x:0": np.zeros((2, 3, 3), np.float32), "w:0": np.zeros((1, 1, 1, 1), np.float32)}
    with (
        graphmill.Session(graph=graph, config=config) as session,
        pytest.raises(errors.InvalidArgumentError, match="must be 4-dimensional"),
    ):
        session.run("y:0", feeds)


@pytest.mark.skipif(not MODELS, reason="GRAPHMILL_BENCH_MODELS is not set")
@pytest.mark.parametrize("name", CASES)
def test_whole_models_are_right(name: str, tmp_path, graphmill_host) -> None:
    from graphmill import proto
    from graphmill.session.session import Session

    case = ModelCase(Path(MODELS) / name, tmp_path)
    graph = proto.GraphDef()
    graph.ParseFromString((Path(MODELS) / name / "graph.pb").read_bytes())
    for node in graph.node:
        node.device = DEVICE
    config = proto.ConfigProto(device_count={"TORCH": 1}, allow_soft_placement=True)
    with Session(graph=graph, host=graphmill_host, config=config) as session:
        for run in case.spec.get("init") or ():
            session.run([], targets=run["targets"])
        for step in range(min(case.steps, 3)):
            assert case.run_step(session, step).problem == "", f"step {step}"
