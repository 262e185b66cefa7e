"""TensorFlow runs frozen graphs of its own models and of ours with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.export import freeze, freeze_model

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def run_graph(path: Path, fetches: Any, feeds: Any) -> Any:
    v1 = tf.compat.v1
    message = v1.GraphDef.FromString(path.read_bytes())
    with tf.Graph().as_default(), v1.Session() as session:
        tf.graph_util.import_graph_def(message, name="")
        first = session.run(fetches, feeds)
        second = session.run(fetches, feeds)
    np.testing.assert_equal(first, second)
    return first


@pytest.mark.parametrize("name", ["saved_model_tf1", "saved_model_tf2"])
def test_tensorflow_runs_frozen_examples(name: str, tmp_path: Path) -> None:
    image = np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 8, 8, 1)
    original = tf.saved_model.load(str(DIGITS / name)).signatures["serving_default"]
    expected = original(image=tf.constant(image))
    frozen = freeze_model(DIGITS / name)
    folder = frozen.save(tmp_path / "frozen")
    found = tf.saved_model.load(folder).signatures["serving_default"](image=tf.constant(image))
    for key, value in expected.items():
        assert np.array_equal(found[key].numpy(), value.numpy())
    signature = frozen.signatures["serving_default"]
    path = Path(frozen.write(tmp_path / "frozen.pb"))
    fetches = {key: info.name for key, info in signature.outputs.items()}
    values = run_graph(path, fetches, {signature.inputs["image"].name: image})
    for key, value in expected.items():
        assert np.array_equal(values[key], value.numpy())


class Program(tf.Module):
    """A loop, a conditional and a table in functions, which read variables."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([[2.0, 0.0], [1.0, 1.0]])
        self.rows = tf.Variable(np.arange(12, dtype=np.float32).reshape(6, 2))
        keys, values = tf.constant(["a", "b"]), tf.constant([3, 5], tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        self.table = tf.lookup.StaticHashTable(initializer, tf.constant(0, tf.int64))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([None], tf.string),
        ]
    )
    def __call__(self, x: Any, n: Any, word: Any) -> Any:
        for _ in tf.range(n):
            x = tf.matmul(x, self.w)
        if n > 2:
            y = x + self.w[0]
        else:
            y = x - self.rows[1]
        return {"y": y, "row": tf.gather(self.rows, self.table.lookup(word))}


def test_functions_loops_and_tables_of_tensorflow_2_are_frozen(tmp_path: Path) -> None:
    program = Program()
    tf.saved_model.save(program, str(tmp_path / "model"))
    frozen = freeze_model(tmp_path / "model")
    assert "VarHandleOp" not in str(frozen.graph_def)
    folder = frozen.save(tmp_path / "frozen")
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    path = Path(frozen.write(tmp_path / "frozen.pb"))
    signature = frozen.signatures["serving_default"]
    fetches = {key: info.name for key, info in signature.outputs.items()}
    x, word = np.float32([[1, 2], [3, 4]]), np.array([b"a", b"?", b"b"])
    for n in (0, 4):
        expected = program(x, n, word)
        found = loaded(x=tf.constant(x), n=tf.constant(n), word=tf.constant(word))
        feeds = {"x": x, "n": np.int32(n), "word": word}
        named = {signature.inputs[key].name: value for key, value in feeds.items()}
        values = run_graph(path, fetches, named)
        with graphmill.Session(graph=str(path)) as session:
            ours = session.run(fetches, named)
        for key, value in expected.items():
            for other in (found[key].numpy(), values[key], ours[key]):
                np.testing.assert_allclose(other, value.numpy(), rtol=1e-6)


@pytest.mark.parametrize("use_resource", [True, False])
def test_loops_and_tables_of_version_1_are_frozen(use_resource: bool, tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph:
        n = graph.placeholder("int32", [], name="n")
        w = graphmill.Variable(1.5, name="w", use_resource=use_resource)
        _, power = graphmill.while_loop(
            lambda i, value: ops.math.less(i, n),
            lambda i, value: [
                ops.math.add_v2(i, graph.constant(1)),
                ops.math.mul(value, w.read_value()),
            ],
            [graph.constant(0), graph.constant(1.0)],
        )
        table = ops.lookup.mutable_hash_table_v2(
            key_dtype="int64", value_dtype="float32", name="table"
        )
        insert = ops.lookup.lookup_table_insert_v2(table, np.int64([1, 2]), np.float32([10, 20]))
        found = ops.lookup.lookup_table_find_v2(table, np.int64([2, 9]), np.float32(-1))
    with graphmill.Session(graph=graph) as session:
        session.run(graphmill.global_variables_initializer(graph))
        session.run([], targets=[insert])
        frozen = freeze(session, {"n": n}, {"power": power, "found": found})
    values = run_graph(
        Path(frozen.write(tmp_path / "m.pb")), [power.name, found.name], {"n:0": np.int32(3)}
    )
    assert values[0] == np.float32(3.375)
    assert values[1].tolist() == [20, -1]


@pytest.mark.parametrize("name", ["saved_model_tf1", "saved_model_tf2", "digits_frozen.pb"])
def test_tensorflow_loads_exported_saved_models(name: str, tmp_path: Path) -> None:
    image = np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 8, 8, 1)
    folder = str(tmp_path / "model")
    graphmill.export.convert_model(DIGITS / name, "saved_model").save(folder)
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    found = loaded(image=tf.constant(image))
    with graphmill.Session(graph=str(DIGITS / "digits_frozen.pb")) as session:
        expected = session.run(["probabilities:0", "classes:0"], {"image:0": image})
    np.testing.assert_allclose(found["probabilities"], expected[0], rtol=1e-4, atol=1e-6)
    assert found["classes"].numpy().tolist() == expected[1].tolist()
    v1 = tf.compat.v1
    with v1.Session(graph=tf.Graph()) as session:
        meta = v1.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        feeds = {meta.inputs["image"].name: image}
        again = session.run(meta.outputs["probabilities"].name, feeds)
    np.testing.assert_allclose(again, expected[0], rtol=1e-4, atol=1e-6)


def test_tensorflow_2_program_is_exported_with_variables_and_tables(tmp_path: Path) -> None:
    program = Program()
    tf.saved_model.save(program, str(tmp_path / "model"))
    exported = graphmill.export.convert_model(tmp_path / "model", "saved_model")
    (folder,) = exported.save(tmp_path / "exported")
    loaded = tf.saved_model.load(folder).signatures["serving_default"]
    x, word = np.float32([[1, 2], [3, 4]]), np.array([b"a", b"?", b"b"])
    expected = program(x, 4, word)
    found = loaded(x=tf.constant(x), n=tf.constant(4), word=tf.constant(word))
    for key, value in expected.items():
        np.testing.assert_allclose(found[key].numpy(), value.numpy(), rtol=1e-6)
