"""Models without signatures are exported with the inputs that the outputs need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.export import convert_model, freeze_model

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


@pytest.fixture
def training(tmp_path: Path) -> str:
    """Return the path of a MetaGraph with a checkpoint, written in the middle of training."""
    with graphmill.Graph().as_default() as graph, graphmill.Session(graph=graph) as session:
        x = graph.placeholder("float32", [None, 2], name="x")
        label = graph.placeholder("float32", [None, 1], name="label")
        w = graphmill.Variable(np.float32([[1], [2]]), name="w")
        y = ops.math.mat_mul(x, w, name="y")
        loss = ops.math.mean(ops.math.squared_difference(y, label), [0, 1], name="loss")
        graphmill.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
        session.run(graphmill.global_variables_initializer())
        return f"{graphmill.train.Saver().save(session, tmp_path / 'm')}.meta"


def test_only_needed_inputs_are_exported(training: str, tmp_path: Path) -> None:
    exported = convert_model(training, "saved_model", fetches=["y"])
    (folder,) = exported.save(tmp_path / "model")
    with graphmill.saved_model.load(folder) as model:
        signature = model.signatures["serving_default"]
        assert list(signature.inputs) == ["x"]
        assert signature([[1, 1]])["y"].tolist() == [[3]]


def test_only_needed_inputs_are_frozen(training: str) -> None:
    frozen = freeze_model(training, fetches=["y"])
    signature = frozen.signatures["serving_default"]
    assert (list(signature.inputs), list(signature.outputs)) == (["x"], ["y"])
    assert {node.name for node in frozen.graph_def.node} >= {"x", "w", "y"}
    assert not {node.name for node in frozen.graph_def.node} & {"label", "loss", "save/Const"}


def test_unknown_fetch_is_named(training: str) -> None:
    with pytest.raises(errors.NotFoundError, match=r"'lss' does not exist.*did you mean 'loss'"):
        freeze_model(training, fetches=["lss"])
    with pytest.raises(errors.NotFoundError, match=r"'lss' does not exist.*did you mean 'loss'"):
        convert_model(training, "saved_model", fetches=["lss"])
