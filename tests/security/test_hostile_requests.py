"""Requests to a server of models: no path leaves the served models, no body harms the server."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.plugins.serving.served_models import Client, options_for, write_echo
from tests.security.hostile import contents, make_targets, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREDICT: Final = "/v1/models/m:predict"
INFER: Final = "/v2/models/m/infer"
LONGEST: Final = 4_000
"""Characters of an answer to a refused request, however long the request is."""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Client, Path]]:
    """Serve a model of strings; yield a client and a folder beside the model."""
    pytest.importorskip("uvicorn")
    from graphmill_plugins.serving.model_server import ModelServer

    folder = tmp_path / "target"
    make_targets(folder)
    server = ModelServer(options_for(write_echo(tmp_path / "model", "string", [None])))
    client = Client(server)
    try:
        assert client.post(PREDICT, {"instances": ["connects"]})[0] == 200
        yield client, folder
    finally:
        client.close()
        server.stop()


PATHS: Final = (
    "/v1/models/../target:predict",
    "/v1/models/..%2ftarget:predict",
    "/v1/models/%2e%2e%2ftarget:predict",
    "/v1/models/m/versions/../../target:predict",
    "/v1/models/m/versions/-1:predict",
    "/v1/models/m/versions/0x1:predict",
    "/v1/models/m/versions/1e3:predict",
    "/v1/models/m/versions/%00:predict",
    "/v1/models/m/versions/nan:predict",
    "/v1/models/m/versions/\xb2:predict",
    "/v1/models/m/labels/..%2f..%2ftarget:predict",
    "/v1/models/{folder}:predict",
    "/v1/models/file:%2f%2f{folder}:predict",
    "/v1/models/m%00:predict",
    "/v1/models/m%0d%0aX-Evil:%201:predict",
    "/v1/models/NaN:predict",
    "/v1/models/" + "n" * 5000 + ":predict",
    "/v1/models//m:predict",
    "/v1/models/M:predict",
    "/v1//../etc/passwd",
    "/../../../../etc/passwd",
    "//etc/passwd",
    "/v2/models/..%2ftarget/infer",
    "/v2/models/m/versions/..%2f1/infer",
    "/v2/repository/models/..%2ftarget/load",
    "/metrics/../../etc/passwd",
)


def request_line(path: str) -> str:
    return path.encode("latin-1").decode("latin-1").replace("\xb2", "%C2%B2")


@pytest.mark.parametrize("number", range(len(PATHS)))
def test_path_of_a_request_leaves_no_model(number: int, served: tuple[Client, Path]) -> None:
    client, folder = served
    before = contents(folder)
    path = request_line(PATHS[number].replace("{folder}", str(folder).replace("/", "%2f")))
    body = json.dumps({"instances": ["text"]}).encode()
    with recorded(folder) as events:
        status, answer = client.text("POST", path, body)
    assert 400 <= status < 500, (path, answer)
    assert len(answer) < LONGEST
    assert "root:" not in answer
    assert "X-Evil" not in answer.partition("\n")[0] or "\r" not in answer
    assert (events, contents(folder)) == ([], before)
    assert client.post(PREDICT, {"instances": ["still here"]})[0] == 200


def nested(depth: int, text: str = "[") -> bytes:
    return b'{"instances": ' + text.encode() * depth


BODIES: Final[dict[str, Any]] = {
    "deep lists": lambda: nested(200_000),
    "deep lists that are closed": lambda: nested(50_000) + b"]" * 50_000 + b"}",
    "more dimensions than an array has": lambda: nested(100) + b'"x"' + b"]" * 100 + b"}",
    "deep objects": lambda: nested(200_000, '{"x": '),
    "deep base64 objects": lambda: nested(50_000, '[{"b64": '),
    "base64 that is no text": lambda: json.dumps({"instances": [{"b64": 1}]}).encode(),
    "base64 with a hole": lambda: json.dumps({"instances": [{"b64": "a*b"}]}).encode(),
    "base64 and more": lambda: json.dumps({"instances": [{"b64": "YQ==", "x": 1}]}).encode(),
    "a surrogate": lambda: b'{"instances": ["\\ud800"], "signature_name": "\\udfff"}',
    "a name with a NUL": lambda: json.dumps(
        {"signature_name": "serving_default\0", "instances": ["x"]}
    ).encode(),
    "a long name": lambda: json.dumps({"signature_name": "n" * 10**6, "instances": ["x"]}).encode(),
    "a long key": lambda: json.dumps({"instances": [{"n" * 10**6: "x"}]}).encode(),
    "many keys": lambda: json.dumps({"instances": [{str(n): "x" for n in range(10**5)}]}).encode(),
    "a name that is a path": lambda: json.dumps(
        {"signature_name": "../../target/one.txt", "instances": ["x"]}
    ).encode(),
    "a name that is not a number": lambda: b'{"signature_name": NaN, "instances": ["x"]}',
    "a long number": lambda: b'{"instances": [' + b"1" * 10**6 + b"]}",
    "a long exponent": lambda: b'{"instances": [1e' + b"9" * 10**5 + b"]}",
    "an infinite number": lambda: b'{"instances": [Infinity]}',
    "a list of lists": lambda: json.dumps({"instances": [["x"] * 10, ["x"]]}).encode(),
    "a key twice": lambda: b'{"instances": ["x"], "instances": 3}',
    "bytes": lambda: bytes(range(256)) * 100,
}


@pytest.mark.parametrize("name", BODIES)
def test_body_of_a_request_does_not_harm_the_server(name: str, served: tuple[Client, Path]) -> None:
    client, folder = served
    with recorded(folder) as events:
        status, answer = client.text("POST", PREDICT, BODIES[name]())
    assert status == 400, answer[:300]
    assert len(answer) < LONGEST
    json.loads(answer)["error"]
    assert events == []
    assert client.post(PREDICT, {"instances": ["still here"]})[0] == 200


def test_large_base64_is_a_value(served: tuple[Client, Path]) -> None:
    client, _ = served
    content = base64.b64encode(bytes(1 << 20)).decode()
    status, answer = client.post(PREDICT, {"instances": [{"b64": content}]})
    assert status == 200
    assert base64.b64decode(answer["predictions"][0]["y_bytes"]["b64"]) == bytes(1 << 20)


TENSORS: Final[dict[str, Any]] = {
    "a large shape": {"name": "x", "shape": [2**62], "datatype": "BYTES", "data": ["a"]},
    "sizes that multiply to nothing": {
        "name": "x", "shape": [2**32, 2**32], "datatype": "BYTES", "data": [],
    },
    "300 dimensions": {"name": "x", "shape": [1] * 300, "datatype": "BYTES", "data": ["a"]},
    "a size of zero": {"name": "x", "shape": [0, 2**62], "datatype": "BYTES", "data": []},
    "another type": {"name": "x", "shape": [1], "datatype": "PICKLE", "data": ["a"]},
    "a name that is a path": {
        "name": "/etc/passwd", "shape": [1], "datatype": "BYTES", "data": ["a"],
    },
    "shared memory": {
        "name": "x", "shape": [1], "datatype": "BYTES",
        "parameters": {"shared_memory_region": "../target", "shared_memory_byte_size": 10},
    },
    "a size of a binary value": {
        "name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 2**40},
    },
}  # fmt: skip


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_of_a_request_is_checked(name: str, served: tuple[Client, Path]) -> None:
    client, folder = served
    with recorded(folder) as events:
        status, answer = client.text(
            "POST", INFER, json.dumps({"inputs": [TENSORS[name]]}).encode()
        )
    assert status == 400, answer[:300]
    assert len(answer) < LONGEST
    assert events == []
    assert client.post(PREDICT, {"instances": ["still here"]})[0] == 200
