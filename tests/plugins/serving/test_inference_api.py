"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

import http.client
import json

import numpy as np
import pytest
from tests.plugins.serving.served_models import TIMEOUT, options_for, write_echo, write_line

from graphmill_plugins.serving.requests.batching_options import BatchingOptions

INFER = "/v2/models/m/infer"
X = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2.0]}


@pytest.fixture
def line(serve, tmp_path):
    return serve(options_for(write_line(tmp_path / "m")))[1]


def test_health_and_metadata_are_served(line):
    assert line.get("/v2/health/live") == (200, {"live": True})
    assert line.get("/v2/health/ready") == (200, {"ready": True})
    assert line.get("/v2/models/m/ready") == (200, {"name": "m", "ready": True})
    assert line.get("/v2/models/m/versions/3/ready")[0] == 503
    assert line.get("/v2/models/n/ready")[0] == 404
    assert line.get("/v2")[1]["name"] == "graphmill"
    assert line.get("/v2/models/m")[1] == {
        "name": "m",
        "versions": ["1"],
        "platform": "tensorflow_savedmodel",
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
    }


def test_configuration_is_served(serve, line, tmp_path):
    tensors = {"data_type": "TYPE_FP32", "dims": [1], "reshape": {"shape": []}}
    expected = {
        "name": "m",
        "platform": "tensorflow_savedmodel",
        "max_batch_size": 64,
        "dynamic_batching": {"max_queue_delay_microseconds": 0},
        "input": [{"name": "x", **tensors}],
        "output": [{"name": "y", **tensors}],
    }
    assert line.get("/v2/models/m/config") == (200, expected)
    assert line.get("/v2/models/m/versions/1/config") == (200, expected)
    assert line.get("/v2/models/m/versions/3/config")[0] == 404
    assert "model_configuration" in line.get("/v2")[1]["extensions"]


def test_configuration_without_batches_has_their_dimension(serve, tmp_path):
    client = serve(options_for(write_line(tmp_path / "m"), batches=False))[1]
    config = client.get("/v2/models/m/config")[1]
    assert config["max_batch_size"] == 0
    assert "dynamic_batching" not in config
    assert config["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}]


def test_configuration_of_batches_leaves_out_their_dimension(serve, tmp_path):
    batching = BatchingOptions(max_batch_size=16, max_wait_seconds=0.002)
    model = write_echo(tmp_path / "m", "string", [None, 3])
    client = serve(options_for(model, batching=batching))[1]
    config = client.get("/v2/models/m/config")[1]
    assert config["max_batch_size"] == 16
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 2000}
    assert config["input"] == [{"name": "x", "data_type": "TYPE_STRING", "dims": [3]}]
    line = serve(options_for(write_line(tmp_path / "n"), batching=batching))[1]
    (x,) = line.get("/v2/models/m/config")[1]["input"]
    assert (x["dims"], x["reshape"]) == ([1], {"shape": []})


@pytest.mark.parametrize(("shape", "expected"), [([], []), (None, [-1]), ([None, 3], [-1, 3])])
def test_metadata_has_the_shapes(serve, tmp_path, shape, expected):
    """A scalar has no dimensions; the protocol cannot express an unknown rank."""
    client = serve(options_for(write_echo(tmp_path / "m", "float32", shape)))[1]
    metadata = client.get("/v2/models/m")[1]
    tensors = metadata["inputs"] + metadata["outputs"]
    assert [tensor["shape"] for tensor in tensors] == [expected] * 2


def test_infer_returns_the_outputs(line):
    y = {"name": "y", "datatype": "FP32", "shape": [2], "data": [2.5, 3.0]}
    assert line.post(INFER, {"id": "7", "inputs": [X]}) == (
        200,
        {"model_name": "m", "model_version": "1", "id": "7", "outputs": [y]},
    )
    document = {
        "inputs": [X],
        "outputs": [{"name": "twice"}],
        "parameters": {"signature_name": "both"},
    }
    (output,) = line.post("/v2/models/m/versions/1/infer", document)[1]["outputs"]
    assert (output["name"], output["data"]) == ("twice", [5.0, 6.0])


def test_texts_are_bytes(serve, tmp_path):
    client = serve(options_for(write_echo(tmp_path / "m", "string", [None, 1])))[1]
    x = {"name": "x", "shape": [2, 1], "datatype": "BYTES", "data": [["a"], ["ü"]]}
    outputs = client.post(INFER, {"inputs": [x]})[1]["outputs"]
    assert [(one["shape"], one["data"]) for one in outputs] == [([2, 1], ["a", "ü"])] * 2


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "'inputs' is missing"),
        ({"inputs": 1}, "'inputs' is not of type list"),
        ({"inputs": [1]}, "is not an object"),
        ({"inputs": [{**X, "name": "z"}]}, "has no input 'z'; it takes x"),
        ({"inputs": [{**X, "datatype": "FP64"}]}, "has the datatype 'FP64'; expected 'FP32'"),
        ({"inputs": [{**X, "shape": [3]}]}, "has 2 elements; expected 3"),
        ({"inputs": [{**X, "shape": [-2]}]}, "the shape of input 'x'"),
        ({"inputs": [{**X, "shape": ["2"]}]}, "the shape of input 'x'"),
        ({"inputs": [{**X, "data": ["1", "2"]}]}, "not of expected type"),
        ({"inputs": [X, X]}, "occurs twice"),
        ({"inputs": [X], "outputs": [{"name": "z"}]}, "alias not found in signature: z"),
        ({"inputs": []}, "Missing but required: {x}"),
    ],
)
def test_a_malformed_request_is_refused(line, document, message):
    status, answer = line.post(INFER, document)
    assert status == 400
    assert message in answer["error"]


def binary_answer(server, document, data, length=None):
    """Return status, JSON and binary data of the answer to a request with binary data."""
    head = json.dumps(document).encode()
    connection = http.client.HTTPConnection(*server.http_address, timeout=TIMEOUT)
    try:
        headers = {"Inference-Header-Content-Length": str(len(head) if length is None else length)}
        connection.request("POST", INFER, head + data, headers)
        response = connection.getresponse()
        content = response.read()
        size = int(response.headers.get("Inference-Header-Content-Length", len(content)))
        return response.status, json.loads(content[:size]), content[size:]
    finally:
        connection.close()


def binary(name, datatype, shape, data):
    """Return an input whose elements follow the JSON."""
    parameters = {"binary_data_size": len(data)}
    return {"name": name, "datatype": datatype, "shape": shape, "parameters": parameters}


@pytest.fixture
def line_server(serve, tmp_path):
    return serve(options_for(write_line(tmp_path / "m")))[0]


FLOATS = np.array([1, 2], np.float32).tobytes()
BINARY_X = binary("x", "FP32", [2], FLOATS)


@pytest.mark.parametrize(
    "choice",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "y", "parameters": {"binary_data": True}}]},
        {"outputs": [{"name": "y"}], "parameters": {"binary_data_output": True}},
    ],
)
def test_outputs_may_be_binary(line_server, choice):
    status, answer, data = binary_answer(line_server, {"inputs": [BINARY_X], **choice}, FLOATS)
    assert (status, answer["model_name"]) == (200, "m")
    (y,) = answer["outputs"]
    assert y == {"name": "y", "datatype": "FP32", "shape": [2], "parameters": y["parameters"]}
    assert y["parameters"] == {"binary_data_size": 8}
    assert np.frombuffer(data, np.float32).tolist() == [2.5, 3.0]


@pytest.mark.parametrize(
    "choice",
    [{}, {"outputs": [{"name": "y", "parameters": {"binary_data": False}}],
          "parameters": {"binary_data_output": True}}],
)  # fmt: skip
def test_binary_inputs_may_have_json_outputs(line_server, choice):
    status, answer, data = binary_answer(line_server, {"inputs": [BINARY_X], **choice}, FLOATS)
    assert (status, data) == (200, b"")
    assert answer["outputs"][0]["data"] == [2.5, 3.0]


def test_json_inputs_may_have_binary_outputs(line_server):
    document = {"inputs": [X], "parameters": {"binary_data_output": True}}
    assert binary_answer(line_server, document, b"")[2] == np.float32([2.5, 3.0]).tobytes()


def test_binary_texts_have_lengths(serve, tmp_path):
    server = serve(options_for(write_echo(tmp_path / "m", "string", [None])))[0]
    data = b"\1\0\0\0a" + b"\0\0\0\0" + b"\3\0\0\0\xff\0b"
    document = {
        "inputs": [binary("x", "BYTES", [3], data)],
        "outputs": [{"name": "y", "parameters": {"binary_data": True}}],
    }
    assert binary_answer(server, document, data)[::2] == (200, data)


@pytest.mark.parametrize(
    ("document", "data", "message"),
    [
        ({"inputs": [BINARY_X]}, FLOATS[:-1], "has 8 bytes; 7 are left"),
        ({"inputs": [BINARY_X]}, FLOATS + b"1", "1 bytes follow the binary data"),
        ({"inputs": [{**BINARY_X, "shape": [3]}]}, FLOATS, "has 2 elements; expected 3"),
        ({"inputs": [{**BINARY_X, "data": [1, 2]}]}, FLOATS, "both 'data' and"),
        ({"inputs": [binary("x", "FP32", [1], b"12345")]}, b"12345", "not a multiple of 4"),
        ({"inputs": [{**X, "parameters": {"binary_data_size": -1}}]}, b"", "both 'data' and"),
        ({"inputs": [{**BINARY_X, "parameters": {"binary_data_size": -1}}]}, b"", "has -1 bytes"),
        ({"inputs": [{**BINARY_X, "parameters": {"binary_data_size": "8"}}]}, FLOATS, "type int"),
        ({"inputs": [X], "parameters": {"binary_data_output": 1}}, b"", "not of type bool"),
    ],
)
def test_malformed_binary_data_is_refused(line_server, document, data, message):
    status, answer, _ = binary_answer(line_server, document, data)
    assert status == 400
    assert message in answer["error"]


@pytest.mark.parametrize("length", ["x", "-1", "9" * 19, "9" * 18, "1"])
def test_a_wrong_length_of_json_is_refused(line_server, length):
    assert binary_answer(line_server, {"inputs": [BINARY_X]}, FLOATS, length)[0] == 400


def test_classification_is_refused(line):
    document = {"inputs": [X], "outputs": [{"name": "y", "parameters": {"classification": 1}}]}
    assert line.post(INFER, document)[0] == 501


def test_a_method_that_a_path_does_not_take(line):
    assert line.get(INFER) == (405, {"error": f"{INFER} takes POST, not GET"})
