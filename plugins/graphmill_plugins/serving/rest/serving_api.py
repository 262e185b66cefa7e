"""TensorFlow Serving's REST API: predict, classify, regress, status and metadata.

Semantics: http_rest_api_handler.cc, http_rest_api_util.cc and json_tensor.cc of TensorFlow Serving.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf import json_format

from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import proto
from graphmill_plugins.serving.requests.examples import (
    INPUTS,
    classification_outputs,
    regression_outputs,
    serialized_examples,
    to_classification_result,
    to_regression_result,
)
from graphmill_plugins.serving.requests.model_metadata import signature_def_map, version_statuses
from graphmill_plugins.serving.rest.http_request import HttpResponse
from graphmill_plugins.serving.rest.json_decimals import decimals
from graphmill_plugins.serving.rest.json_examples import input_of_json
from graphmill_plugins.serving.rest.json_tensors import (
    columns_as_json,
    parse_object,
    rows_as_json,
    shown,
    tensors_of_inputs,
    tensors_of_instances,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from google.protobuf.message import Message

    from graphmill_plugins.serving.models.served_signature import Arrays, ServedSignature
    from graphmill_plugins.serving.requests.server_core import ServerCore
    from graphmill_plugins.serving.rest.http_request import HttpRequest


async def predict(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `:predict`."""
    document = parse_object(request.body)
    version = core.manager.find(request.model, request.version, request.label)
    signature = version.signature(_signature_name(document))
    is_row = "instances" in document
    if is_row == ("inputs" in document):
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} Not formatted correctly expecting only one of 'inputs' "
            "or 'instances' keys to exist "
            if is_row
            else "Missing 'inputs' or 'instances' key"
        )
    if is_row:
        arrays = tensors_of_instances(document["instances"], signature.inputs)
    else:
        arrays = tensors_of_inputs(document["inputs"], signature.inputs)
    outputs = await core.run(version, signature, arrays)
    text = rows_as_json(outputs) if is_row else columns_as_json(outputs)
    return HttpResponse(text.encode("utf-8"))


async def classify(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `:classify`."""
    result = to_classification_result(
        *await _run_on_examples(core, request, classification_outputs)
    )
    rows = ",".join(map(_classes_text, result.classifications))
    return HttpResponse(f'{{\n    "results": [{rows}\n    ]\n}}'.encode())


async def regress(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `:regress`."""
    result = to_regression_result(*await _run_on_examples(core, request, regression_outputs))
    values = np.array([regression.value for regression in result.regressions], np.float32)
    return HttpResponse(f'{{\n    "results": [{", ".join(decimals(values))}]\n}}'.encode())


async def status(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v1/models/NAME`."""
    _check_name(request)
    versions = core.manager.statuses(request.model, request.version, request.label)
    response = proto.GetModelStatusResponse(model_version_status=version_statuses(versions))
    return HttpResponse(_as_json(response, keeps_names=False).encode())


async def metadata(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v1/models/NAME/metadata`."""
    _check_name(request)
    version = core.manager.find(request.model, request.version, request.label)
    spec = proto.ModelSpec(name=version.model)
    spec.version.value = version.number
    spec_text = _as_json(spec, keeps_names=True)
    signatures = _as_json(signature_def_map(version), keeps_names=True)
    return HttpResponse(
        f'{{\n"model_spec":{spec_text},\n"metadata": {{"signature_def": {signatures}}}\n}}\n'
        .encode()
    )  # fmt: skip


def _signature_name(document: dict[str, Any]) -> str:
    name = document.get("signature_name", "")
    if type(name) is not str:
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} not formatted correctly. 'signature_name' key must be "
            "a string value."
        )
    return name


async def _run_on_examples(
    core: ServerCore,
    request: HttpRequest,
    outputs_of: Callable[[ServedSignature], Sequence[str]],
) -> tuple[Arrays, int]:
    """Run a signature on the examples of a request; return the outputs and their number."""
    document = parse_object(request.body)
    version = core.manager.find(request.model, request.version, request.label)
    signature = version.signature(_signature_name(document))
    examples = serialized_examples(input_of_json(document))
    outputs = await core.run(version, signature, {INPUTS: examples}, outputs_of(signature))
    return outputs, len(examples)


def _classes_text(classifications: proto.Classifications) -> str:
    classes = classifications.classes
    scores = decimals(np.array([scored.score for scored in classes], np.float32))
    labels = [json.dumps(scored.label, ensure_ascii=False) for scored in classes]
    pairs = (f"[{label}, {score}]" for label, score in zip(labels, scores, strict=True))
    return f"\n        [{', '.join(pairs)}]"


def _as_json(message: Message, *, keeps_names: bool) -> str:
    return json_format.MessageToJson(
        message,
        preserving_proto_field_name=keeps_names,
        always_print_fields_with_no_presence=True,
        indent=1,
    )


def _check_name(request: HttpRequest) -> None:
    if not request.model:
        raise InvalidArgumentError("Missing model name in request.")
