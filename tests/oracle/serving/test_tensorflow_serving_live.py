"""Clients of TensorFlow Serving, unmodified, and its messages beside ours."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphmill import proto
from graphmill_plugins.serving.models.model_settings import ModelSettings
from graphmill_plugins.serving.server_options import ServerOptions

pytestmark = pytest.mark.oracle

CLIENT = Path(__file__).with_name("tensorflow_serving_client.py")
TIMEOUT = 300
MODULES = {
    "model_spec_pb2": ["apis.model_pb2"],
    "predict_pb2": ["apis.predict_pb2"],
    "inference_pb2": [
        "apis.input_pb2",
        "apis.classification_pb2",
        "apis.regression_pb2",
        "apis.inference_pb2",
    ],
    "get_model_metadata_pb2": ["apis.get_model_metadata_pb2"],
    "get_model_status_pb2": ["apis.get_model_status_pb2", "apis.status_pb2"],
    "model_management_pb2": ["apis.model_management_pb2"],
    "model_server_config_pb2": [
        "config.model_server_config_pb2",
        "config.file_system_storage_path_source_pb2",
        "config.logging_config_pb2",
        "config.log_collector_config_pb2",
    ],
    "prediction_log_pb2": ["apis.prediction_log_pb2"],
}
# A text or a message that we do not read has the same wire type as bytes.
LENGTH_DELIMITED = {9, 11, 12}


@pytest.fixture
def exported(tf, tmp_path):
    """Export a small perceptron, as TensorFlow 2 does."""

    class Perceptron(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = tf.Variable(np.arange(12, dtype=np.float32).reshape(3, 4) / 10)

        @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
        def __call__(self, x):
            return {"y": tf.nn.softmax(x @ self.weights)}

    model = Perceptron()
    tf.saved_model.save(model, str(tmp_path / "m" / "3"), signatures=model.__call__)
    return model, tmp_path / "m"


def test_an_unmodified_client_of_tensorflow_serving_works(exported):
    pytest.importorskip("tensorflow_serving")
    from graphmill_plugins.serving.model_server import ModelServer

    model, folder = exported
    models = (ModelSettings("m", str(folder)),)
    with ModelServer(ServerOptions(models=models, http_port=None, grpc_port=0)) as server:
        done = subprocess.run(
            [sys.executable, str(CLIENT), str(server.grpc_address), "m"],
            capture_output=True, text=True, timeout=TIMEOUT, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    expected = model(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))["y"].numpy()
    np.testing.assert_allclose(results.pop("y"), expected, rtol=1e-6)
    np.testing.assert_allclose(results.pop("float_val"), expected.ravel(), rtol=1e-6)
    assert results == {
        "model_spec": ["m", 3, "serving_default"],
        "wrong_type": "INVALID_ARGUMENT",
        "unpacked": True,
        "dtype": 1,
        "states": [[3, "AVAILABLE"]],
    }


@pytest.mark.parametrize("module", MODULES)
def test_fields_of_messages_are_those_of_tensorflow_serving(tf, module):
    pytest.importorskip("tensorflow_serving")
    theirs = {}
    for name in MODULES[module]:
        found = importlib.import_module(f"tensorflow_serving.{name}")
        theirs.update(found.DESCRIPTOR.message_types_by_name)
    for name, ours in getattr(proto, module).DESCRIPTOR.message_types_by_name.items():
        if name not in theirs:
            continue
        for field in ours.fields:
            other = theirs[name].fields_by_number[field.number]
            assert (field.name, field.is_repeated) == (other.name, other.is_repeated), (
                name,
                field.name,
            )
            assert field.type == other.type or {field.type, other.type} <= LENGTH_DELIMITED
