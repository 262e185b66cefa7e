"""Models without signatures are exported with the inputs that the outputs need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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


@pytest.fixture
def dropout(tmp_path: Path) -> str:
    """Return the path of a GraphDef with an input that has a default."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        keep = ops.array.placeholder_with_default(np.float32(2), shape=[], name="keep_prob")
        ops.math.mul(x, keep, name="y")
    path = tmp_path / "dropout.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


@pytest.mark.parametrize(("inputs", "expected"), [((), ["x"]), (["keep_prob"], ["keep_prob", "x"])])
def test_inputs_with_defaults_are_exported_if_named(
    dropout: str, tmp_path: Path, inputs: list[str], expected: list[str]
) -> None:
    (folder,) = convert_model(dropout, "saved_model", inputs=inputs).save(tmp_path / "model")
    frozen = freeze_model(dropout, inputs=inputs).save(tmp_path / "frozen")
    feeds = {name: np.float32(3) if name == "keep_prob" else [1, 2] for name in expected}
    for path in (folder, frozen):
        with graphmill.saved_model.load(path) as model:
            signature = model.signatures["serving_default"]
            assert sorted(signature.inputs) == expected
            factor = 3 if inputs else 2
            assert signature(**feeds)["y"].tolist() == [factor, 2 * factor]


def test_unknown_input_is_named(dropout: str) -> None:
    with pytest.raises(errors.NotFoundError, match="no input 'keep'; did you mean 'keep_prob'"):
        convert_model(dropout, "saved_model", inputs=["keep"])
    with pytest.raises(errors.NotFoundError, match=r"its inputs are .*'keep_prob'"):
        convert_model(dropout, "saved_model", inputs=["zzz"])


def test_variables_without_a_value_are_an_error_with_advice() -> None:
    with graphmill.Graph().as_default() as graph:
        w = graphmill.Variable(1.0, name="w")
        y = w * 2.0
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.FailedPreconditionError, match=r"run their initializers[^:]*:\n  w"),
    ):
        graphmill.export.convert(session, "saved_model", {}, {"y": y})


@pytest.mark.parametrize("convert", [convert_model, freeze_model])
def test_input_that_no_output_depends_on_is_refused(training: str, convert: Any) -> None:
    target = ["saved_model"] if convert is convert_model else []
    with pytest.raises(errors.InvalidArgumentError, match="no output depends on it"):
        convert(training, *target, fetches=["y"], inputs=["label"])


def test_inputs_are_exported_if_all_have_defaults(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = ops.array.placeholder_with_default(np.float32(2), shape=[], name="x")
        ops.math.neg(x, name="y")
    (tmp_path / "m.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert list(freeze_model(tmp_path / "m.pb").signatures["serving_default"].inputs) == ["x"]


def test_unknown_fetch_is_named(training: str) -> None:
    with pytest.raises(errors.NotFoundError, match=r"'lss' does not exist.*did you mean 'loss'"):
        freeze_model(training, fetches=["lss"])
    with pytest.raises(errors.NotFoundError, match=r"'lss' does not exist.*did you mean 'loss'"):
        convert_model(training, "saved_model", fetches=["lss"])
