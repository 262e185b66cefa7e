"""Models that tests serve, and clients of the server."""

from __future__ import annotations

import http.client
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import graphmill
from graphmill import ops, proto
from graphmill.saved_model import build_signature_def, save
from graphmill.tf_record import TFRecordWriter
from graphmill_plugins.serving.models.model_settings import ModelSettings
from graphmill_plugins.serving.server_options import ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 30.0


def write_line(folder: Path, slope: float = 0.5, warmup: list[proto.PredictionLog] | None = None):
    """Write a model `y = slope * x + 2`, whose signature `both` also has the output `twice`."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        y = x * slope + 2.0
        signatures = {
            "serving_default": build_signature_def({"x": x}, {"y": y}),
            "both": build_signature_def({"x": x}, {"y": y, "twice": y * 2.0}),
        }
    with graphmill.Session(graph=graph) as session:
        save(session, folder, signatures)
    if warmup:
        (folder / "assets.extra").mkdir()
        with TFRecordWriter(str(folder / "assets.extra" / "tf_serving_warmup_requests")) as writer:
            for log in warmup:
                writer.write(log.SerializeToString())
    return folder


def write_centered(folder: Path) -> Path:
    """Write a model that subtracts from its input `x` of shape [?] the mean of all rows."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        signature = build_signature_def({"x": x}, {"y": x - ops.math.mean(x, 0)})
    with graphmill.Session(graph=graph) as session:
        save(session, folder, signature)
    return folder


def write_echo(folder: Path, dtype: str, shape: list[int | None] | None) -> Path:
    """Write a model that returns its input `x` as `y` and, if it is a string, as `y_bytes`."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(dtype, shape, name="x")
        outputs = {"y": ops.array.identity(x)}
        if dtype == "string":
            outputs["y_bytes"] = ops.array.identity(x)
        signature = build_signature_def({"x": x}, outputs)
    with graphmill.Session(graph=graph) as session:
        save(session, folder, signature)
    return folder


def write_examples(folder: Path) -> Path:
    """Write a model with signatures that classify and regress tf.Examples with a feature `x`."""
    graph = graphmill.Graph()
    with graph.as_default():
        inputs = graph.placeholder("string", [None], name="examples")
        (x,) = ops.parsing.parse_example(
            inputs, graph.constant([], "string"), [], [graph.constant("x")],
            [graph.constant([0.0], "float32")], sparse_types=[], dense_shapes=[[1]],
        ).dense_values  # fmt: skip
        scores = ops.array.concat(1, [x, 1.0 - x])
        labels = ops.array.tile(
            graph.constant([["big", "small"]], "string"),
            ops.array.pack([ops.array.shape(x)[0], graph.constant(1)]),
        )
        signatures = {
            "serving_default": build_signature_def(
                {"inputs": inputs},
                {"classes": labels, "scores": scores},
                "tensorflow/serving/classify",
            ),
            "value": build_signature_def(
                {"inputs": inputs}, {"outputs": x}, "tensorflow/serving/regress"
            ),
        }
    with graphmill.Session(graph=graph) as session:
        save(session, folder, signatures)
    return folder


def write_waiting(folder: Path) -> Path:
    """Write a model that waits for an element of a queue that only `feed` fills."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], shared_name="served")
        (element,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
        enqueue = ops.data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)])
        with graph.control_dependencies([enqueue]):
            fed = ops.array.identity(x)
        signatures = {
            "serving_default": build_signature_def({"x": x}, {"y": x + element}),
            "feed": build_signature_def({"x": x}, {"y": fed}),
        }
    with graphmill.Session(graph=graph) as session:
        save(session, folder, signatures)
    return folder


def options_for(path: Path, name: str = "m", **changes: Any) -> ServerOptions:
    """Return the options of a server of one model that does not look for new versions."""
    options = ServerOptions(models=(ModelSettings(name, str(path)),), poll_seconds=0)
    return replace(options, **changes)


class Client:
    """A connection to a server over HTTP."""

    def __init__(self, server: Any) -> None:
        address = server.http_address
        self.connection = http.client.HTTPConnection(address.host, address.port, timeout=TIMEOUT)

    def get(self, path: str) -> tuple[int, Any]:
        return self.request("GET", path)

    def post(self, path: str, document: Any) -> tuple[int, Any]:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        return self.request("POST", path, body)

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        status, text = self.text(method, path, body)
        return status, json.loads(text)

    def text(self, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        self.connection.request(method, path, body)
        response = self.connection.getresponse()
        return response.status, response.read().decode()

    def close(self) -> None:
        self.connection.close()
