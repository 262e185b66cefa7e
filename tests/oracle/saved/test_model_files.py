"""Models written by TensorFlow, in every format, are read correctly (clause G2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import json_format

from graphmill import proto
from graphmill.graph.formats.model_file import open_model
from graphmill.graph.formats.model_format import Encoding, Kind
from graphmill.saved.saved_model import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def graph(tf: Any) -> Any:
    """A graph with a large constant, a variable, a loop, a function and arbitrary byte strings."""
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, [None, 50], name="x")
        table = tf.constant(np.random.default_rng(0).random((50, 40), np.float32), name="table")
        weights = v1.get_variable("w", initializer=tf.ones([40, 3]), use_resource=False)
        tf.constant([b"\xff\0", "é".encode()], name="text")
        y = tf.identity(x @ table @ weights, name="y")

        @tf.function
        def double(value: Any) -> Any:
            return value * tf.constant(np.full((2000,), 2.0, np.float32))[0]

        tf.identity(double(y), name="z")
        tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="loop")
    return graph


def ours(graph: Any) -> Any:
    return proto.GraphDef.FromString(graph.as_graph_def().SerializeToString())


@pytest.mark.parametrize("as_text", [True, False])
def test_graphs_are_read_in_both_encodings(
    tf: Any, graph: Any, as_text: bool, tmp_path: Path
) -> None:
    tf.io.write_graph(graph, str(tmp_path), "model", as_text=as_text)
    model = open_model(tmp_path / "model")
    assert model.kind is Kind.GRAPH_DEF
    assert model.encoding is (Encoding.TEXT if as_text else Encoding.BINARY)
    loaded = model.graph()
    if not as_text:
        assert {key[0] == "" for key in loaded.tensors} == {True, False}  # also in the function
    assert loaded.whole() == ours(graph)


def test_json_is_read(graph: Any, tmp_path: Path) -> None:
    (tmp_path / "m").write_text(json_format.MessageToJson(graph.as_graph_def()), "utf-8")
    model = open_model(tmp_path / "m")
    assert model.encoding is Encoding.JSON
    assert model.graph().whole() == ours(graph)


@pytest.mark.parametrize("as_text", [True, False])
def test_meta_graphs_are_read_in_both_encodings(
    tf: Any, graph: Any, as_text: bool, tmp_path: Path
) -> None:
    v1 = tf.compat.v1
    with graph.as_default():
        saver = v1.train.Saver()
        meta = v1.train.export_meta_graph(
            str(tmp_path / "x.meta"), as_text=as_text, saver_def=saver.saver_def
        )
    model = open_model(tmp_path / "x.meta")
    assert model.kind is Kind.META_GRAPH_DEF
    loaded = model.meta_graph()
    assert loaded.meta_graph_def.saver_def.restore_op_name == meta.saver_def.restore_op_name
    assert set(loaded.meta_graph_def.collection_def) == set(meta.collection_def)
    theirs = proto.GraphDef.FromString(meta.graph_def.SerializeToString())
    assert loaded.graph.whole() == theirs


@pytest.mark.parametrize("as_text", [True, False])
def test_saved_models_with_assets_are_loaded(tf: Any, as_text: bool, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_bytes(b"one\ntwo")
    folder = tmp_path / "model"
    with v1.Session(graph=tf.Graph()) as session:
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        path = tf.constant(str(vocabulary), name="path")
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, path)
        text = v1.get_variable("text", initializer="", trainable=False, use_resource=False)
        init = v1.group(v1.assign(text, tf.io.read_file(path)), name="init_text")
        w = v1.get_variable("w", initializer=[[1.0], [2.0]], use_resource=False)
        y = tf.matmul(x, w, name="y")
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(folder))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=init,
        )
        builder.save(as_text=as_text)
    vocabulary.unlink()  # the copy in the model is the one to read
    with load(folder) as model:
        outputs = model.signatures["serving_default"](x=[[1, 1], [2, 3]])
        np.testing.assert_array_equal(outputs["y"], [[3], [8]])
        assert model.session.run("text:0") == b"one\ntwo"


def test_a_saved_model_of_tensorflow_2_is_loaded(tf: Any, tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_bytes(b"one\ntwo")

    class Model(tf.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable([[1.0], [2.0]])
            self.asset = tf.saved_model.Asset(str(vocabulary))

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            return {"y": x @ self.w, "text": tf.io.read_file(self.asset.asset_path)}

    model = Model()
    tf.saved_model.save(model, str(tmp_path / "model"), signatures=model.__call__)
    vocabulary.unlink()
    with load(tmp_path / "model") as loaded:
        outputs = loaded.signatures["serving_default"](x=[[1, 1], [2, 3]])
    np.testing.assert_array_equal(outputs["y"], [[3], [8]])
    assert outputs["text"] == b"one\ntwo"
