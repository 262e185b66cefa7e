"""TensorFlow Serving's services and the Open Inference Protocol over gRPC."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest
from tests.plugins.serving.served_models import (
    TIMEOUT,
    options_for,
    write_echo,
    write_examples,
    write_line,
    write_waiting,
)

from graphmill import proto
from graphmill.ops.tensor_proto import numpy_to_tensor_proto, tensor_proto_to_numpy

grpc = pytest.importorskip("grpc")
PREDICTION = "tensorflow.serving.PredictionService"
MODEL = "tensorflow.serving.ModelService"
INFERENCE = "inference.GRPCInferenceService"


class Stub:
    """Calls a method with a request, and returns its response."""

    def __init__(self, channel):
        self._channel = channel

    def __call__(self, service, method, request, response_type, timeout=TIMEOUT):
        call = self._channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=response_type.FromString,
        )
        return call(request, timeout=timeout)

    def fails(self, *arguments, **named):
        """Return the code and the message of a call that fails."""
        with pytest.raises(grpc.RpcError) as caught:
            self(*arguments, **named)
        return caught.value.code().name, caught.value.details()


@pytest.fixture
def connect(serve):
    channels = []

    def start(options):
        from dataclasses import replace

        server, client = serve(replace(options, grpc_port=0))
        channels.append(grpc.insecure_channel(str(server.grpc_address)))
        return Stub(channels[-1]), client, server

    yield start
    for channel in channels:
        channel.close()


@pytest.fixture
def line(connect, tmp_path):
    return connect(options_for(write_line(tmp_path / "m")))[0]


def predict_request(value=(1.0, 2.0), signature="", dtype=np.float32, name="m", key="x"):
    request = proto.PredictRequest()
    request.model_spec.name = name
    request.model_spec.signature_name = signature
    request.inputs[key].CopyFrom(numpy_to_tensor_proto(np.array(value, dtype), None))
    return request


def test_predict_returns_outputs_and_the_version(line):
    response = line(PREDICTION, "Predict", predict_request(), proto.PredictResponse)
    assert response.model_spec.name == "m"
    assert response.model_spec.version.value == 1
    assert response.model_spec.signature_name == "serving_default"
    assert list(response.outputs["y"].float_val) == [2.5, 3.0]
    assert [dim.size for dim in response.outputs["y"].tensor_shape.dim] == [2]


def test_an_output_filter_selects_outputs(line):
    request = predict_request(signature="both")
    request.output_filter.append("twice")
    response = line(PREDICTION, "Predict", request, proto.PredictResponse)
    assert {name: list(v.float_val) for name, v in response.outputs.items()} == {"twice": [5, 6]}
    request.output_filter.append("twice")
    code, details = line.fails(PREDICTION, "Predict", request, proto.PredictResponse)
    assert (code, "duplicate" in details) == ("INVALID_ARGUMENT", True)


def wrong_version():
    request = predict_request()
    request.model_spec.version.value = 9
    return request


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        (proto.PredictRequest(), "INVALID_ARGUMENT", "ModelSpec has no name"),
        (predict_request(name="n"), "NOT_FOUND", "Latest(n)"),
        (wrong_version(), "NOT_FOUND", "Specific(m, 9)"),
        (predict_request(signature="z"), "FAILED_PRECONDITION", 'key "z" not found'),
        (predict_request(dtype=np.float64), "INVALID_ARGUMENT", "is of DT_DOUBLE; expected DT_FL"),
        (
            predict_request(key="z"),
            "INVALID_ARGUMENT",
            "Sent extra: {z}. Missing but required: {x}",
        ),
        (predict_request(value=[[1.0]]), "INVALID_ARGUMENT", "Cannot feed value of shape (1, 1)"),
    ],
    ids=range(7),
)
def test_predict_reports_errors(line, request_, code, message):
    found, details = line.fails(PREDICTION, "Predict", request_, proto.PredictResponse)
    assert found == code
    assert message in details


def test_errors_quote_long_names_in_part(line):
    request = predict_request(signature="k" * 100_000)
    code, message = line.fails(PREDICTION, "Predict", request, proto.PredictResponse)
    assert code == "FAILED_PRECONDITION"
    assert len(message) < 2100


def test_a_tensor_whose_shape_and_content_differ_is_refused(line):
    request = predict_request()
    request.inputs["x"].tensor_shape.dim[0].size = 1 << 40
    assert line.fails(PREDICTION, "Predict", request, proto.PredictResponse)[0] in {
        "INVALID_ARGUMENT",
        "RESOURCE_EXHAUSTED",
    }


def test_bytes_that_are_not_a_message_are_refused(line):
    class Garbage:
        def SerializeToString(self):
            return b"\xff" * 10

    assert line.fails(PREDICTION, "Predict", Garbage(), proto.PredictResponse)[0] == "INTERNAL"


def test_a_small_message_of_a_large_tensor_is_refused(connect, tmp_path):
    """The last value of a tensor stands for all that are missing."""
    options = options_for(write_line(tmp_path / "m"), max_request_bytes=1000)
    line = connect(options)[0]
    request = predict_request(value=[2.0])
    tensor = request.inputs["x"]
    tensor.ClearField("tensor_content")
    tensor.float_val[:] = [2.0]
    tensor.tensor_shape.dim[0].size = 250
    answer = line(PREDICTION, "Predict", request, proto.PredictResponse)
    assert tensor_proto_to_numpy(answer.outputs["y"]).shape == (250,)
    tensor.tensor_shape.dim[0].size = 251
    code, message = line.fails(PREDICTION, "Predict", request, proto.PredictResponse)
    assert code == "INVALID_ARGUMENT"
    assert "input 'x' of shape [251] has 1004 bytes; the limit is 1000" in message


@pytest.mark.parametrize(
    "dtype", ["float16", "float64", "int8", "uint16", "int64", "uint32", "uint64", "bool"]
)
def test_tensors_of_each_type_round_trip(connect, tmp_path, dtype):
    call = connect(options_for(write_echo(tmp_path / "m", dtype, [None, None])))[0]
    values = np.array([[1, 0], [0, 1]]).astype(dtype)
    request = predict_request(values, dtype=dtype)
    output = call(PREDICTION, "Predict", request, proto.PredictResponse).outputs["y"]
    assert not output.tensor_content
    found = tensor_proto_to_numpy(output)
    assert found.dtype == values.dtype
    assert (found == values).all()


def examples(*values):
    found = proto.Input()
    for value in values:
        found.example_list.examples.add().features.feature["x"].float_list.value.append(value)
    return found


def test_classify_regress_and_both(connect, tmp_path):
    call = connect(options_for(write_examples(tmp_path / "m")))[0]
    spec = proto.ModelSpec(name="m")
    value = proto.ModelSpec(name="m", signature_name="value")
    request = proto.ClassificationRequest(model_spec=spec, input=examples(0.25))
    answer = call(PREDICTION, "Classify", request, proto.ClassificationResponse)
    classes = answer.result.classifications[0].classes
    assert [(one.label, one.score) for one in classes] == [("big", 0.25), ("small", 0.75)]
    regression = proto.RegressionRequest(model_spec=value, input=examples(0.25, 2))
    answer = call(PREDICTION, "Regress", regression, proto.RegressionResponse)
    assert [one.value for one in answer.result.regressions] == [0.25, 2]
    both = proto.MultiInferenceRequest(input=examples(0.5))
    both.tasks.add(model_spec=spec, method_name="tensorflow/serving/classify")
    both.tasks.add(model_spec=value, method_name="tensorflow/serving/regress")
    results = call(PREDICTION, "MultiInference", both, proto.MultiInferenceResponse).results
    assert results[0].classification_result.classifications[0].classes[1].score == 0.5
    assert results[1].regression_result.regressions[0].value == 0.5
    both.tasks.add(model_spec=spec, method_name="tensorflow/serving/classify")
    details = call.fails(PREDICTION, "MultiInference", both, proto.MultiInferenceResponse)[1]
    assert "Duplicate evaluation of signature" in details
    request.input.Clear()
    assert call.fails(PREDICTION, "Classify", request, proto.ClassificationResponse) == (
        "INVALID_ARGUMENT",
        "Input is empty.",
    )


def test_metadata_has_the_signatures(line):
    request = proto.GetModelMetadataRequest(model_spec=proto.ModelSpec(name="m"))
    assert line.fails(PREDICTION, "GetModelMetadata", request, proto.GetModelMetadataResponse)[
        0
    ] == ("INVALID_ARGUMENT")
    request.metadata_field.append("signature_def")
    answer = line(PREDICTION, "GetModelMetadata", request, proto.GetModelMetadataResponse)
    packed = answer.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = proto.SignatureDefMap.FromString(packed.value).signature_def
    assert signatures["serving_default"].inputs["x"].dtype == proto.DataType.Value("DT_FLOAT")


def test_status_is_reported_and_reloading_refused(connect, tmp_path):
    options = options_for(write_line(tmp_path / "m"))
    call, _, _server = connect(options)
    request = proto.GetModelStatusRequest(model_spec=proto.ModelSpec(name="m"))
    (status,) = call(
        MODEL, "GetModelStatus", request, proto.GetModelStatusResponse
    ).model_version_status
    assert (status.version, status.state) == (1, proto.ModelVersionStatus.AVAILABLE)
    reload = proto.ReloadConfigRequest()
    found = call.fails(MODEL, "HandleReloadConfigRequest", reload, proto.ReloadConfigResponse)
    assert found[0] == "PERMISSION_DENIED"


def test_clients_may_reload_if_they_are_allowed_to(connect, tmp_path):
    options = options_for(write_line(tmp_path / "m"), allow_reload=True)
    call, client, _ = connect(options)
    reload = proto.ReloadConfigRequest()
    config = reload.config.model_config_list.config.add(name="n")
    config.base_path = str(write_line(tmp_path / "n", 1.0))
    answer = call(MODEL, "HandleReloadConfigRequest", reload, proto.ReloadConfigResponse)
    assert answer.status.error_code == 0
    assert client.post("/v1/models/n:predict", {"instances": [1]})[1] == {"predictions": [3.0]}
    assert client.post("/v1/models/m:predict", {"instances": [1]})[0] == 404
    config.base_path = str(tmp_path / "nowhere")
    answer = call(MODEL, "HandleReloadConfigRequest", reload, proto.ReloadConfigResponse)
    assert "does not exist" in answer.status.error_message


def test_the_deadline_of_a_call_is_respected(connect, tmp_path):
    call, _, _ = connect(options_for(write_waiting(tmp_path / "m"), timeout_seconds=TIMEOUT))
    found = call.fails(
        PREDICTION, "Predict", predict_request([1.0]), proto.PredictResponse, timeout=0.5
    )
    assert found[0] == "DEADLINE_EXCEEDED"


def test_stop_finishes_calls_in_progress(connect, tmp_path):
    call, client, server = connect(options_for(write_waiting(tmp_path / "m")))
    results = []
    thread = threading.Thread(
        target=lambda: results.append(
            call(PREDICTION, "Predict", predict_request([1.0]), proto.PredictResponse)
        )
    )
    thread.start()
    while "graphmill_serving_requests_in_flight 2" not in client.text("GET", "/metrics")[1]:
        pass
    (version,) = server._core.manager.versions()
    feed = version.signature("feed")
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    feed.run(feed.convert({"x": [1.0]}), ("y",))
    thread.join()
    stopping.join()
    assert list(results[0].outputs["y"].float_val) == [2.0]


def test_the_open_inference_protocol_is_served(line):
    def ask(method, request, response_type):
        return line(INFERENCE, method, request, response_type)

    assert ask("ServerLive", proto.ServerLiveRequest(), proto.ServerLiveResponse).live
    assert ask("ServerReady", proto.ServerReadyRequest(), proto.ServerReadyResponse).ready
    ready = proto.ModelReadyRequest(name="m")
    assert ask("ModelReady", ready, proto.ModelReadyResponse).ready
    ready.version = "4"
    assert not ask("ModelReady", ready, proto.ModelReadyResponse).ready
    found = ask("ModelMetadata", proto.ModelMetadataRequest(name="m"), proto.ModelMetadataResponse)
    assert [(one.name, one.datatype, list(one.shape)) for one in found.inputs] == [
        ("x", "FP32", [-1])
    ]
    request = proto.ModelInferRequest(model_name="m", id="7")
    x = request.inputs.add(name="x", datatype="FP32", shape=[2])
    x.contents.fp32_contents.extend([1, 2])
    answer = ask("ModelInfer", request, proto.ModelInferResponse)
    assert (answer.id, answer.model_version) == ("7", "1")
    assert list(answer.outputs[0].contents.fp32_contents) == [2.5, 3.0]
    x.ClearField("contents")
    request.raw_input_contents.append(struct.pack("<2f", 1, 2))
    answer = ask("ModelInfer", request, proto.ModelInferResponse)
    assert struct.unpack("<2f", answer.raw_output_contents[0]) == (2.5, 3.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 7, "not a multiple of 4"),
        (b"\0" * 12, "has 3 elements; expected 2"),
    ],
)
def test_raw_contents_of_a_wrong_size_are_refused(line, data, message):
    request = proto.ModelInferRequest(model_name="m", raw_input_contents=[data])
    request.inputs.add(name="x", datatype="FP32", shape=[2])
    found = line.fails(INFERENCE, "ModelInfer", request, proto.ModelInferResponse)
    assert (found[0], message in found[1]) == ("INVALID_ARGUMENT", True)


def test_raw_texts_round_trip(connect, tmp_path):
    call = connect(options_for(write_echo(tmp_path / "m", "string", [None])))[0]
    data = struct.pack("<I", 2) + b"ab" + struct.pack("<I", 0)
    request = proto.ModelInferRequest(model_name="m", raw_input_contents=[data])
    request.inputs.add(name="x", datatype="BYTES", shape=[2])
    request.outputs.add(name="y")
    answer = call(INFERENCE, "ModelInfer", request, proto.ModelInferResponse)
    assert list(answer.raw_output_contents) == [data]
    request.raw_input_contents[0] = data[:-1]
    found = call.fails(INFERENCE, "ModelInfer", request, proto.ModelInferResponse)
    assert "are truncated" in found[1]


def test_the_health_service_reports_serving(connect, tmp_path):
    from grpc_health.v1 import health_pb2

    call = connect(options_for(write_line(tmp_path / "m")))[0]
    answer = call(
        "grpc.health.v1.Health",
        "Check",
        health_pb2.HealthCheckRequest(service=PREDICTION),
        health_pb2.HealthCheckResponse,
    )
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
