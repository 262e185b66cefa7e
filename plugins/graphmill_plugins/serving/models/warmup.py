"""Run the warm-up requests in a model's folder before the model serves clients.

Semantics: saved_model_warmup.cc of tensorflow_serving/servables/tensorflow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from graphmill.errors import (
    DataLossError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)
from graphmill.spi.files import exists, join, open_stream, read_record
from graphmill.spi.protos import proto, tensor_proto_to_numpy
from graphmill_plugins.serving.models.served_signature import ServedSignature, find_signature
from graphmill_plugins.serving.requests.examples import (
    CLASSIFY,
    INPUTS,
    REGRESS,
    classification_outputs,
    regression_outputs,
    serialized_examples,
    to_classification_result,
    to_regression_result,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FILE: Final = ("assets.extra", "tf_serving_warmup_requests")
MAX_RECORDS: Final = 1000

if TYPE_CHECKING:
    Signatures = Mapping[str, ServedSignature | UnimplementedError]


def warm_up(folder: str, signatures: Signatures) -> int:
    """Run the requests in a model's warm-up file; return their number.

    Args:
        folder: the folder of the SavedModel.
        signatures: its signatures.

    Raises:
        DataLossError: the file is damaged.
        InvalidArgumentError: there are more than `MAX_RECORDS` records, or a request is malformed.
        UnimplementedError: a record is of a kind that is not supported.
        OpError: a request failed.
    """
    path = join(folder, *FILE)
    if not exists(path):
        return 0
    count = 0
    for record in _records(path):
        if count == MAX_RECORDS:
            raise InvalidArgumentError(
                f"Number of warmup records exceeds the maximum ({MAX_RECORDS}) at {path}"
            )
        try:
            _run(_parsed(record), signatures)
        except OpError as error:
            error.add_note(f"in warm-up request {count} of {path}")
            raise
        count += 1
    return count


def _records(path: str) -> Iterator[bytes]:
    with open_stream(path) as stream:
        offset = 0
        while (record := read_record(stream, offset)) is not None:
            offset += len(record) + 16  # its length, and two checksums
            yield record


def _parsed(record: bytes) -> proto.PredictionLog:
    try:
        return proto.PredictionLog.FromString(record)
    except DecodeError as error:
        raise DataLossError(f"Failed to parse warmup record: {error}") from error


def _run(log: proto.PredictionLog, signatures: Signatures) -> None:
    kind = log.WhichOneof("log_type")
    if kind == "predict_log":
        _predict(log.predict_log.request, signatures)
    elif kind == "classify_log":
        _classify(log.classify_log.request, signatures)
    elif kind == "regress_log":
        _regress(log.regress_log.request, signatures)
    elif kind == "multi_inference_log":
        _infer(log.multi_inference_log.request, signatures)
    else:
        raise UnimplementedError(f"Unsupported log_type for warmup: {kind or 'none'}")


def _predict(request: proto.PredictRequest, signatures: Signatures) -> None:
    signature = find_signature(signatures, request.model_spec.signature_name)
    values = {name: tensor_proto_to_numpy(value) for name, value in request.inputs.items()}
    signature.run(signature.convert(values), signature.select_outputs(request.output_filter))


def _classify(request: proto.ClassificationRequest, signatures: Signatures) -> None:
    signature = find_signature(signatures, request.model_spec.signature_name)
    examples = serialized_examples(request.input)
    outputs = signature.run({INPUTS: examples}, classification_outputs(signature))
    to_classification_result(outputs, len(examples))


def _regress(request: proto.RegressionRequest, signatures: Signatures) -> None:
    signature = find_signature(signatures, request.model_spec.signature_name)
    examples = serialized_examples(request.input)
    outputs = signature.run({INPUTS: examples}, regression_outputs(signature))
    to_regression_result(outputs, len(examples))


def _infer(request: proto.MultiInferenceRequest, signatures: Signatures) -> None:
    for task in request.tasks:
        if task.method_name == CLASSIFY:
            _classify(
                proto.ClassificationRequest(model_spec=task.model_spec, input=request.input),
                signatures,
            )
        elif task.method_name == REGRESS:
            _regress(
                proto.RegressionRequest(model_spec=task.model_spec, input=request.input),
                signatures,
            )
        else:
            raise UnimplementedError(f"Unsupported signature method_name: {task.method_name}")
