"""All nodes that ONNX cannot hold are reported together; plugins add conversions."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, files, ops
from graphmill.export import convert

if TYPE_CHECKING:
    from pathlib import Path

onnx = pytest.importorskip("onnx")


def graph_of_neg() -> tuple[graphmill.Graph, Any, Any]:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 2], name="x")
        return graph, x, ops.math.neg(x, name="y")


def test_all_nodes_are_named() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("string", [None], name="x")
        v = graphmill.Variable(1.0, name="v")
        outputs = {
            "hash": ops.string.string_to_hash_bucket_fast(x, num_buckets=7, name="hash"),
            "lower": ops.string.string_lower(x, name="lower"),
            "changed": v.assign_add(1.0),
            "product": ops.math.cumprod(ops.math.neg(v.read_value()), 0, name="product"),
        }
    with graphmill.Session(graph=graph) as session:
        session.run(v.initializer)
        with pytest.raises(errors.UnimplementedError) as caught:
            convert(session, "onnx", {"x": x}, outputs)
    text = str(caught.value)
    for line in (
        "hash (StringToHashBucketFast): there is no conversion of its op",
        "lower (StringLower): there is no conversion of its op",
        "AssignAddVariableOp (AssignAddVariableOp): it changes a variable",
        "product (Cumprod): ONNX has no cumulative product",
    ):
        assert line in text


def test_shapes_must_fit() -> None:
    graph, x, y = graph_of_neg()
    with graphmill.Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="no input 'z'"):
            convert(session, "onnx", {"x": x}, {"y": y}, shapes={"z": (1,)})
        with pytest.raises(errors.InvalidArgumentError, match="does not fit"):
            convert(session, "onnx", {"x": x}, {"y": y}, shapes={"x": (1, 3)})


def test_large_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmill_plugins.jit.export.onnx import exporter

    monkeypatch.setattr(exporter, "_LIMIT", 100)
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 30], name="x")
        y = ops.math.add_v2(x, np.zeros(30, np.float32))
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match="120 bytes"),
    ):
        convert(session, "onnx", {"x": x}, {"y": y})


def test_unknown_rank_is_refused() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", name="x")
        y = ops.math.neg(x)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match="input x: its rank is unknown"),
    ):
        convert(session, "onnx", {"x": x}, {"y": y})


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x, y = graph_of_neg()
    monkeypatch.setitem(sys.modules, "onnx", None)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.UnimplementedError, match=r"pip install graphmill\[onnx\]"),
    ):
        convert(session, "onnx", {"x": x}, {"y": y})


def test_plugin_converts_its_own_op() -> None:
    @graphmill.op("Mine>Halve")
    @graphmill.kernel("Mine>Halve")
    def halve(xp: Any, x: graphmill.float32) -> graphmill.float32:
        return x / 2

    def convert_halve(node: Any) -> str:
        return str(node.emit("Div", node.inputs[0], node.constant(2, like=0)))

    def register_ops(ops: Any) -> None:
        ops.add(halve)

    def register_kernels(kernels: Any) -> None:
        kernels.add(halve)

    def register_conversions(target: str, conversions: Any) -> None:
        if target == "onnx":
            conversions.add("Mine>Halve", convert_halve)

    plugin = types.ModuleType("halves")
    plugin.graphmill_register_ops = graphmill.hookimpl(  # type: ignore[attr-defined]
        specname="graphmill_register_ops"
    )(register_ops)
    plugin.graphmill_register_kernels = graphmill.hookimpl(  # type: ignore[attr-defined]
        specname="graphmill_register_kernels"
    )(register_kernels)
    plugin.graphmill_register_conversions = graphmill.hookimpl(  # type: ignore[attr-defined]
        specname="graphmill_register_conversions"
    )(register_conversions)
    host = graphmill.Host(plugins=[plugin])
    graph = graphmill.Graph(host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = graphmill.graph.tensor.Tensor(graph.create_op("Mine>Halve", [x]))
    with graphmill.Session(graph=graph, host=host) as session:
        model = convert(session, "onnx", {"x": x}, {"y": y})
    from tests.plugins.jit.export.onnx.onnx_runs import run_onnx

    assert run_onnx(model.message, {"x": np.float32([2, 5])})[0].tolist() == [1, 2.5]


def test_file_or_folder_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, x, y = graph_of_neg()
    with graphmill.Session(graph=graph) as session:
        model = convert(session, "onnx", {"x": x}, {"y": y})
    assert model.save(str(tmp_path / "folder")) == [str(tmp_path / "folder" / "model.onnx")]
    path = tmp_path / "mine.onnx"
    assert model.save(str(path)) == [str(path)]
    assert onnx.load(str(path)).graph.input[0].name == "x"

    def write(self: files.LocalWriter, chunk: Any) -> None:
        raise errors.ResourceExhaustedError(f"{self.path}: No space left on device")

    old = path.read_bytes()
    monkeypatch.setattr(files.LocalWriter, "write", write)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        model.save(str(path))
    assert path.read_bytes() == old
