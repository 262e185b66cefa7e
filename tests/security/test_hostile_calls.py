"""gRPC calls to a server of models: no name leaves the models, no request harms the server."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.plugins.serving.served_models import TIMEOUT, options_for, write_echo
from tests.security.hostile import contents, make_targets, recorded

from graphmill import proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto

grpc = pytest.importorskip("grpc")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREDICT: Final = "/tensorflow.serving.PredictionService/Predict"
METADATA: Final = "/tensorflow.serving.PredictionService/GetModelMetadata"
STATUS: Final = "/tensorflow.serving.ModelService/GetModelStatus"
RELOAD: Final = "/tensorflow.serving.ModelService/HandleReloadConfigRequest"
INFER: Final = "/inference.GRPCInferenceService/ModelInfer"
METHODS: Final = (
    PREDICT,
    METADATA,
    STATUS,
    RELOAD,
    INFER,
    "/tensorflow.serving.PredictionService/Classify",
    "/tensorflow.serving.PredictionService/Regress",
    "/tensorflow.serving.PredictionService/MultiInference",
    "/inference.GRPCInferenceService/ModelMetadata",
    "/inference.GRPCInferenceService/ModelReady",
)
LARGEST: Final = 1 << 18
"""Bytes of the largest request that the server takes."""
LONGEST: Final = 4_000
"""Characters of the message of a refused call, however long the request is."""
REFUSALS: Final = frozenset(
    {"INVALID_ARGUMENT", "NOT_FOUND", "FAILED_PRECONDITION", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
)


class Caller:
    """Sends bytes as requests."""

    def __init__(self, address: str, folder: Path) -> None:
        self.channel = grpc.insecure_channel(address)
        self.folder = folder

    def call(self, method: str, request: bytes) -> bytes:
        """Return the response to a request."""
        response: bytes = self.channel.unary_unary(method)(request, timeout=TIMEOUT)
        return response

    def refusal(self, method: str, request: bytes) -> tuple[str, str]:
        """Return code and message of a refused call; nothing in the folder is touched."""
        before = contents(self.folder)
        with recorded(self.folder) as events, pytest.raises(grpc.RpcError) as caught:
            self.call(method, request)
        assert [event for event in events if not event.startswith("socket.connect")] == []
        assert contents(self.folder) == before
        details = caught.value.details()
        assert len(details) < LONGEST
        assert self.call(PREDICT, predict().SerializeToString()), "the server is harmed"
        return caught.value.code().name, details


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Caller]:
    """Serve a model of strings beside a folder; yield its client."""
    pytest.importorskip("uvicorn")
    from graphmill_plugins.serving.model_server import ModelServer

    make_targets(tmp_path / "target")
    options = options_for(write_echo(tmp_path / "model", "string", [None]))
    server = ModelServer(replace(options, grpc_port=0, max_request_bytes=LARGEST))
    made = Caller(str(server.grpc_address), tmp_path / "target")
    try:
        yield made
    finally:
        made.channel.close()
        server.stop()


def predict(name: str = "m", text: bytes = b"text") -> Any:
    request = proto.PredictRequest()
    request.model_spec.name = name
    request.inputs["x"].CopyFrom(numpy_to_tensor_proto(np.array([text], object), None))
    return request


NAMES: Final = (
    "",
    ".",
    "..",
    "../target",
    "m/../../target",
    "m/",
    "/m",
    "{folder}",
    "file://{folder}",
    "m\0",
    "m\r\nX-Evil: 1",
    "\x1b[2Jm",
    "M",
    "\uff4d",
    "*",
    "${HOME}",
    "n" * 5000,
    "http://127.0.0.1:9/m",
)


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_name_of_a_call_leaves_no_model(number: int, caller: Caller) -> None:
    name = NAMES[number].replace("{folder}", str(caller.folder))
    infer = proto.ModelInferRequest(model_name=name)
    status, metadata = proto.GetModelStatusRequest(), proto.GetModelMetadataRequest()
    status.model_spec.name = metadata.model_spec.name = name
    metadata.metadata_field.append("signature_def")
    calls = {PREDICT: predict(name), INFER: infer, STATUS: status, METADATA: metadata}
    for method, request in calls.items():
        code, _ = caller.refusal(method, request.SerializeToString())
        assert code in ("NOT_FOUND", "INVALID_ARGUMENT"), method


def _spec(**fields: Any) -> Any:
    request = predict()
    for name, value in fields.items():
        if name == "version":
            request.model_spec.version.value = value
        else:
            setattr(request.model_spec, name, value)
    return request


@pytest.mark.parametrize(
    "fields",
    [
        {"version": -1},
        {"version": 2**63 - 1},
        {"version_label": "../../target"},
        {"version_label": "v" * 5000},
        {"signature_name": "../../target"},
        {"signature_name": "__saved_model_init_op"},
        {"signature_name": "s" * 5000},
    ],
)
def test_version_or_signature_of_a_call_leaves_no_model(
    fields: dict[str, Any], caller: Caller
) -> None:
    code, _ = caller.refusal(PREDICT, _spec(**fields).SerializeToString())
    assert code in REFUSALS


MALFORMED: Final[dict[str, bytes]] = {
    "noise": bytes(range(256)),
    "a length without its bytes": b"\x0a\xff\xff\xff\xff\x07",
    "a varint without an end": b"\x08" + b"\xff" * 16,
    "groups without an end": b"\x0b" * 1000,
    "a text that is not UTF-8": b"\x0a\x04\x0a\x02\xff\xfe",
    "nested a thousand times": b"\x0a\x80\x08" * 1000,
}


@pytest.mark.parametrize("name", MALFORMED)
@pytest.mark.parametrize("method", METHODS)
def test_malformed_request_is_refused(method: str, name: str, caller: Caller) -> None:
    code, _ = caller.refusal(method, MALFORMED[name])
    # What the parser of messages refuses is INTERNAL in gRPC.
    assert code in (*REFUSALS, "INTERNAL")


@pytest.mark.parametrize("method", METHODS)
def test_oversized_request_is_refused(method: str, caller: Caller) -> None:
    code, _ = caller.refusal(method, predict(text=bytes(LARGEST)).SerializeToString())
    assert code == "RESOURCE_EXHAUSTED"


def test_large_request_is_a_value(caller: Caller) -> None:
    text = bytes(LARGEST - 1_000)
    response = caller.call(PREDICT, predict(text=text).SerializeToString())
    assert proto.PredictResponse.FromString(response).outputs["y"].string_val[0] == text


def _tensor(**fields: Any) -> Any:
    request = predict()
    tensor = request.inputs["x"]
    tensor.Clear()
    tensor.dtype = fields.pop("dtype", 7)
    for size in fields.pop("shape", [1]):
        tensor.tensor_shape.dim.add(size=size)
    for name, value in fields.items():
        field = getattr(tensor, name)
        if isinstance(value, bytes):
            setattr(tensor, name, value)
        else:
            field.extend(value)
    return request


TENSORS: Final[dict[str, dict[str, Any]]] = {
    "a large shape": {"shape": [2**62], "string_val": [b"a"]},
    "sizes that multiply to nothing": {"shape": [2**32, 2**32], "string_val": [b"a"]},
    "a negative size": {"shape": [-2], "string_val": [b"a"]},
    "300 dimensions": {"shape": [1] * 300, "string_val": [b"a"]},
    "another type": {"dtype": 99, "string_val": [b"a"]},
    "a resource": {"dtype": 20},
    "a variant": {"dtype": 21},
    "a reference": {"dtype": 107, "string_val": [b"a"]},
    "numbers as text": {"dtype": 1, "tensor_content": bytes(4)},
    "a damaged content": {"tensor_content": b"\xff\xff\xff\xff\x0f"},
    "a large value of one": {"shape": [2**40], "string_val": [b"a"]},
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensor_of_a_call_is_checked(name: str, caller: Caller) -> None:
    code, _ = caller.refusal(PREDICT, _tensor(**TENSORS[name]).SerializeToString())
    assert code in REFUSALS


def test_call_loads_no_other_model(caller: Caller) -> None:
    """The client chooses neither which models are served nor from where."""
    request = proto.ReloadConfigRequest()
    config = request.config.model_config_list.config.add()
    config.name, config.base_path = "evil", str(caller.folder)
    code, _ = caller.refusal(RELOAD, request.SerializeToString())
    assert code in (*REFUSALS, "PERMISSION_DENIED")


@pytest.mark.parametrize(
    "method",
    ["/tensorflow.serving.PredictionService/../Predict", "/Evil/Predict", "/" + "m" * 5000, "/"],
)
def test_unknown_method_is_refused(method: str, caller: Caller) -> None:
    code, _ = caller.refusal(method, b"")
    assert code in ("UNIMPLEMENTED", "RESOURCE_EXHAUSTED")
