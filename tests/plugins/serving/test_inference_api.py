"""The Open Inference Protocol over HTTP."""

from __future__ import annotations

import pytest
from tests.plugins.serving.served_models import options_for, write_echo, write_line

INFER = "/v2/models/m/infer"
X = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2.0]}


@pytest.fixture
def line(serve, tmp_path):
    return serve(options_for(write_line(tmp_path / "m")))[1]


def test_health_and_metadata(line):
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


def test_infer(line):
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
def test_a_malformed_request(line, document, message):
    status, answer = line.post(INFER, document)
    assert status == 400
    assert message in answer["error"]


def test_extensions_are_refused(line):
    x = {**X, "parameters": {"binary_data_size": 8}}
    assert line.post(INFER, {"inputs": [x]})[0] == 501
    document = {"inputs": [X], "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}
    assert line.post(INFER, document)[0] == 501


def test_a_method_that_a_path_does_not_take(line):
    assert line.get(INFER) == (405, {"error": f"{INFER} takes POST, not GET"})
