"""TensorFlow Serving's REST API, as its documentation describes it."""

from __future__ import annotations

import pytest
from tests.plugins.serving.served_models import (
    options_for,
    write_echo,
    write_examples,
    write_line,
)

PREDICT = "/v1/models/m:predict"


@pytest.fixture
def line(serve, tmp_path):
    return serve(options_for(write_line(tmp_path / "m")))[1]


def test_row_format_is_laid_out_as_by_tensorflow_serving(line):
    body = b'{"instances": [1.0, 2.0, 5.0]}'
    assert line.text("POST", PREDICT, body) == (
        200,
        '{\n    "predictions": [2.5, 3.0, 4.5\n    ]\n}',
    )


def test_rows_of_several_outputs_are_objects(line):
    document = {"signature_name": "both", "instances": [{"x": 1}, {"x": 2.0}]}
    assert line.post(PREDICT, document) == (
        200,
        {"predictions": [{"twice": 5.0, "y": 2.5}, {"twice": 6.0, "y": 3.0}]},
    )


@pytest.mark.parametrize("inputs", [[1.0, 2.0], {"x": [1.0, 2.0]}])
def test_inputs_in_columns_give_outputs_in_columns(line, inputs):
    assert line.post(PREDICT, {"inputs": inputs}) == (200, {"outputs": [2.5, 3.0]})
    document = {"signature_name": "both", "inputs": inputs}
    assert line.post(PREDICT, document)[1] == {"outputs": {"twice": [5.0, 6.0], "y": [2.5, 3.0]}}


def test_numbers_that_are_not_finite_are_read_and_written(line):
    text = line.text("POST", PREDICT, b'{"instances": [NaN, Infinity, -Infinity, 1e-3]}')[1]
    assert '"predictions": [NaN, Infinity, -Infinity, 2.0005' in text


@pytest.mark.parametrize(
    "path", ["/v1/models/m/versions/1", "/v1/models/m", "/V1/MODELS/m/versions/0001"]
)
def test_a_version_can_be_named(line, path):
    assert line.post(f"{path}:predict", {"instances": [0]})[1] == {"predictions": [2.0]}


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/v1/models/m/versions/2:predict", 404, "Servable not found for request: Specific(m, 2)"),
        ("/v1/models/n:predict", 404, "Servable not found for request: Latest(n)"),
        ("/v1/models/m/labels/stable:predict", 404, "Unrecognized servable version label: stable"),
        ("/v1/models/m:describe", 400, "Malformed request: POST /v1/models/m:describe"),
        (f"/v1/models/m/versions/{'9' * 30}:predict", 400, "Failed to convert version"),
        ("/elsewhere", 404, "there is nothing at /elsewhere"),
    ],
)
def test_an_unknown_path_is_refused(line, path, status, message):
    found, document = line.post(path, {"instances": [1]})
    assert found == status
    assert message in document["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The document is empty"),
        (b"{", "JSON Parse error"),
        (b"[1]", "Is not object"),
        (b"\xff\xfe{", "JSON Parse error"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"instances": [' + b"9" * 5000 + b"]}", "JSON Parse error"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (b'{"instances": [1], "inputs": [1]}', "expecting only one of"),
        (b'{"instances": 1}', "Expecting 'instances' to be an list/array"),
        (b'{"instances": []}', "No values in 'instances' array"),
        (b'{"instances": [1, {"x": 1}]}', "Expecting value/list but got object at item 1"),
        (b'{"instances": [{"x": 1}, 2]}', "Expecting object but got list at item 1"),
        (b'{"instances": [{"z": 1}]}', "keys must be equal to: x"),
        (b'{"instances": [1, [2]]}', "at unexpected level"),
        (b'{"instances": [[1], [2, 3]]}', "list at unexpected size: 2"),
        (b'{"instances": [[1], [2]]}', "Cannot feed value of shape (2, 1)"),
        (b'{"instances": ["1"]}', "Type: String is not of expected type: float32"),
        (b'{"instances": [true]}', "Type: Boolean is not of expected type: float32"),
        (b'{"instances": [null]}', "Type: Null is not of expected type: float32"),
        (b'{"inputs": {"z": [1]}}', "Missing named input: x"),
        (b'{"signature_name": 1, "instances": [1]}', "'signature_name' key must be a string"),
        (b'{"signature_name": "bot", "instances": [1]}', "did you mean 'both'"),
    ],
    ids=range(22),
)
def test_a_malformed_request_is_answered_with_its_fault(line, body, message):
    status, document = line.request("POST", PREDICT, body)
    assert status == 400
    assert message in document["error"]
    assert line.post(PREDICT, {"instances": [0]})[0] == 200


def test_errors_quote_long_names_in_part(line):
    document = {"signature_name": "k" * 100_000, "instances": [1]}
    status, answer = line.post(PREDICT, document)
    assert status == 400
    assert len(answer["error"]) < 2100


def test_integers_are_checked(serve, tmp_path):
    client = serve(options_for(write_echo(tmp_path / "m", "int8", [None, 2])))[1]
    assert client.post(PREDICT, {"instances": [[1, -128]]})[1] == {"predictions": [[1, -128]]}
    assert "does not fit into int8" in client.post(PREDICT, {"instances": [[1, 128]]})[1]["error"]
    assert "not of expected type" in client.post(PREDICT, {"instances": [[1, 1.5]]})[1]["error"]


def test_strings_and_base64_round_trip(serve, tmp_path):
    client = serve(options_for(write_echo(tmp_path / "m", "string", [None])))[1]
    status, document = client.post(PREDICT, {"instances": ["grüße", {"b64": "YWI="}]})
    assert (status, document["predictions"]) == (
        200,
        [
            {"y": "grüße", "y_bytes": {"b64": "Z3LDvMOfZQ=="}},
            {"y": "ab", "y_bytes": {"b64": "YWI="}},
        ],
    )
    for bad in ({"b64": "%"}, {"b65": "YWI="}, {"b64": 1}):
        assert client.post(PREDICT, {"instances": [bad]})[0] == 400
    status, document = client.post(PREDICT, {"instances": [{"b64": "/w=="}]})
    assert (status, "not valid UTF-8" in document["error"]) == (400, True)


def test_empty_dimensions_round_trip(serve, tmp_path):
    client = serve(options_for(write_echo(tmp_path / "m", "float32", [None, None, None])))[1]
    value = [[[]], [[]]]
    assert client.post(PREDICT, {"inputs": value}) == (200, {"outputs": value})
    assert client.post(PREDICT, {"instances": value}) == (200, {"predictions": value})


def test_the_status_of_a_model_is_served(line):
    status, document = line.get("/v1/models/m")
    state = {
        "version": "1",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert (status, document) == (200, {"model_version_status": [state]})
    assert line.get("/v1/models/m/versions/1")[1] == document
    assert line.get("/v1/models/m/versions/7")[0] == 404
    assert line.get("/v1/models") == (400, {"error": "Missing model name in request."})


def test_the_metadata_of_a_model_is_served(line):
    status, document = line.get("/v1/models/m/metadata")
    assert status == 200
    assert document["model_spec"] == {"name": "m", "signature_name": "", "version": "1"}
    inputs = document["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert inputs["x"]["dtype"] == "DT_FLOAT"
    assert inputs["x"]["tensor_shape"]["dim"] == [{"size": "-1", "name": ""}]


def test_classify_and_regress(serve, tmp_path):
    client = serve(options_for(write_examples(tmp_path / "m")))[1]
    document = {"examples": [{"x": 0.25}, {"x": [1.0]}]}
    assert client.post("/v1/models/m:classify", document) == (
        200,
        {"results": [[["big", 0.25], ["small", 0.75]], [["big", 1.0], ["small", 0.0]]]},
    )
    document = {"signature_name": "value", "context": {"x": 0.5}, "examples": [{}, {"x": 2.0}]}
    assert client.post("/v1/models/m:regress", document) == (200, {"results": [0.5, 2.0]})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "key 'examples' is expected and was not found"),
        ({"examples": 1}, "to be an list/array"),
        ({"examples": []}, "is an empty array"),
        ({"examples": [1]}, "Example must be JSON object but got JSON Number"),
        ({"examples": [{"x": None}]}, "unexpected JSON type: Null"),
        ({"examples": [{"x": [[1]]}]}, "unexpected JSON type: Array"),
        ({"examples": [{"x": [1.0, 2]}]}, "of different types"),
        ({"examples": [{"x": 2**63}]}, "does not fit into int64_t"),
        ({"examples": [{"x": {"b64": "%"}}]}, "Unable to base64 decode"),
        ({"signature_name": "value", "examples": [{}]}, "method_name to be"),
    ],
)
def test_malformed_examples_are_refused(serve, tmp_path, document, message):
    client = serve(options_for(write_examples(tmp_path / "m")))[1]
    status, answer = client.post("/v1/models/m:classify", document)
    assert status == 400
    assert message in answer["error"]
