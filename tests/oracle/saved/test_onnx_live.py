"""Models that TensorFlow and Keras write give the same numbers as ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.plugins.jit.export.onnx.onnx_runs import run_onnx

import graphmill

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")
pytest.importorskip("onnx")


def exported(folder: Path, feeds: Any) -> dict[str, Any]:
    model = graphmill.export.convert_model(folder, "onnx")
    return dict(zip(model.outputs, run_onnx(model.message, feeds), strict=True))


def lstm_of_version_1(x: Any, w: Any, b: Any) -> tuple[Any, Any]:
    """Return the outputs and last state of a loop like that of `dynamic_rnn`."""
    steps = tf.transpose(x, [1, 0, 2])
    length = tf.shape(steps)[0]
    source = tf.TensorArray(tf.float32, size=length).unstack(steps)
    target = tf.TensorArray(tf.float32, size=length, element_shape=[None, 4])
    zeros = tf.zeros([tf.shape(x)[0], 4])

    def body(t: Any, h: Any, c: Any, target: Any) -> Any:
        gates = tf.matmul(tf.concat([source.read(t), h], 1), w) + b
        i, j, f, o = tf.split(gates, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h = tf.sigmoid(o) * tf.tanh(c)
        h.set_shape([None, 4])
        c.set_shape([None, 4])
        return t + 1, h, c, target.write(t, h)

    _, h, _, target = tf.while_loop(lambda t, *_: t < length, body, [0, zeros, zeros, target])
    return tf.transpose(target.stack(), [1, 0, 2]), h


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_recurrent_loop_of_version_1_is_exported(use_resource: bool, tmp_path: Path) -> None:
    v1 = tf.compat.v1
    tf.random.set_seed(3)
    was_v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, None, 3], name="x")
            w = v1.get_variable("w", [7, 16], use_resource=use_resource)
            b = v1.get_variable("b", [16], use_resource=use_resource)
            y, h = lstm_of_version_1(x, w, b)
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, {"y": y, "h": h})
            values = np.random.default_rng(1).normal(size=(2, 6, 3)).astype(np.float32)
            expected = session.run({"y": y, "h": h}, {x: values})
    finally:
        if was_v2:
            v1.enable_control_flow_v2()
    found = exported(tmp_path / "m", {"x": values})
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6)


def test_map_and_scan_of_version_1_are_exported(tmp_path: Path) -> None:
    v1 = tf.compat.v1
    was_v2 = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 3], name="x")
            outputs = {
                "mapped": tf.map_fn(lambda row: row * 2.0 + tf.reduce_sum(row), x),
                "sums": tf.scan(lambda total, row: total * 0.5 + row, x),
                "folded": tf.foldl(lambda total, row: total + row * row, x),
            }
            v1.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x}, outputs)
            values = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
            expected = session.run(outputs, {x: values})
    finally:
        if was_v2:
            v1.enable_control_flow_v2()
    found = exported(tmp_path / "m", {"x": values})
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6)


def layers(name: str) -> Any:
    import keras

    keras.utils.set_random_seed(1)
    one = keras.layers
    if name == "recurrent":
        return keras.Sequential(
            [keras.Input((None, 3)), one.LSTM(4, return_sequences=True), one.GRU(5), one.Dense(2)]
        )
    if name == "attention":
        x = keras.Input((8, 16))
        y = one.LayerNormalization()(one.MultiHeadAttention(2, 8)(x, x) + x)
        return keras.Model(x, one.Dense(16, activation="gelu")(y))
    return keras.Sequential(
        [
            keras.Input((20, 24, 3)),
            one.Conv2D(4, 3, strides=2, padding="same"),
            one.BatchNormalization(),
            one.ReLU(),
            one.SeparableConv2D(6, 3),
            one.UpSampling2D(2, interpolation="bilinear"),
            one.Conv2DTranspose(3, 3, strides=2, padding="same"),
            one.GlobalAveragePooling2D(),
            one.Dense(4, activation="softmax"),
        ]
    )


@pytest.mark.parametrize(
    ("name", "shape"),
    [("recurrent", (2, 6, 3)), ("attention", (3, 8, 16)), ("images", (2, 20, 24, 3))],
)
def test_models_of_keras_are_exported(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    model = layers(name)
    model.export(str(tmp_path / "m"), verbose=False)
    values = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    expected = np.asarray(model(values))
    loaded = graphmill.saved_model.load(tmp_path / "m")
    with loaded:
        (port,) = loaded.signatures["serving_default"].inputs
    (found,) = exported(tmp_path / "m", {port: values}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class Branches(tf.Module):
    """Functions of TensorFlow 2 with a loop that fills an array, and branches by number."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable([[2.0, 0.0], [1.0, 1.0]])

    @tf.function(
        input_signature=[tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([], tf.int32)]
    )
    def __call__(self, x: Any, n: Any) -> Any:
        rows = tf.TensorArray(tf.float32, size=4, element_shape=[None, 2])
        for i in tf.range(4):
            x = tf.matmul(x, self.w) * 0.5
            rows = rows.write(i, x)
        functions = [lambda: x + self.w[0], lambda: x * 2.0, lambda: -x]
        return {"y": tf.switch_case(n, functions), "rows": tf.reduce_sum(rows.stack(), 0)}


@pytest.mark.parametrize("n", [0, 1, 2, 7, -1])
def test_functions_with_indexed_branches_are_exported(n: int, tmp_path: Path) -> None:
    program = Branches()
    tf.saved_model.save(program, str(tmp_path / "m"))
    values = np.float32([[1, 2], [3, 4], [5, 6]])
    expected = program(values, n)
    found = exported(tmp_path / "m", {"x": values, "n": np.int32(n)})
    frozen = graphmill.export.freeze_model(tmp_path / "m").save(tmp_path / "frozen")
    again = tf.saved_model.load(frozen).signatures["serving_default"]
    again = again(x=tf.constant(values), n=tf.constant(n))
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5)
        np.testing.assert_allclose(again[key], value, rtol=1e-5)
