"""TensorFlow Serving's PredictionService.

Semantics: prediction_service_impl.cc, predict_util.cc, classifier.cc, regressor.cc and
multi_inference.cc of TensorFlow Serving.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi.compilers import default_host
from graphmill.spi.protos import proto
from graphmill_plugins._server.tensors import decode_tensor
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
from graphmill_plugins.serving.requests.model_metadata import signature_def_map
from graphmill_plugins.serving.rpc.tensor_fields import fill_tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill_plugins.serving.models.model_version import ModelVersion
    from graphmill_plugins.serving.models.served_signature import Arrays, ServedSignature
    from graphmill_plugins.serving.requests.server_core import ServerCore

SERVICE: Final = "tensorflow.serving.PredictionService"
_SIGNATURE_DEF: Final = "signature_def"
_MAP_TYPE: Final = "type.googleapis.com/tensorflow.serving.SignatureDefMap"


class PredictionService:
    """The methods of the service; each takes a request and the deadline of its client.

    Args:
        core: the state of the server.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    async def predict(
        self, request: proto.PredictRequest, deadline: float | None
    ) -> proto.PredictResponse:
        """Answer Predict."""
        version = find_version(self._core, request.model_spec)
        signature = version.signature(request.model_spec.signature_name)
        arrays = {}
        for name, tensor in request.inputs.items():
            spec = signature.inputs.get(name)
            if spec is None:
                signature.check_inputs(request.inputs)  # raises; what is unknown is not decoded
            elif tensor.dtype != spec.dtype.enum:
                sent, expected = _type_name(tensor.dtype), _type_name(spec.dtype.enum)
                raise InvalidArgumentError(f"input {name!r} is of {sent}; expected {expected}")
            _check_size(name, tensor, self._core.options.max_request_bytes)
            arrays[name] = decode_tensor(tensor, default_host().variants)
        outputs = await self._core.run(version, signature, arrays, request.output_filter, deadline)
        response = proto.PredictResponse(model_spec=_spec(version, signature.name))
        for name, value in outputs.items():
            fill_tensor(response.outputs[name], value)
        return response

    async def classify(
        self, request: proto.ClassificationRequest, deadline: float | None
    ) -> proto.ClassificationResponse:
        """Answer Classify."""
        version, signature, outputs = await self._run_on_examples(
            request, classification_outputs, deadline
        )
        return proto.ClassificationResponse(
            model_spec=_spec(version, signature.name),
            result=to_classification_result(*outputs),
        )

    async def regress(
        self, request: proto.RegressionRequest, deadline: float | None
    ) -> proto.RegressionResponse:
        """Answer Regress."""
        version, signature, outputs = await self._run_on_examples(
            request, regression_outputs, deadline
        )
        return proto.RegressionResponse(
            model_spec=_spec(version, signature.name),
            result=to_regression_result(*outputs),
        )

    async def _run_on_examples(
        self,
        request: proto.ClassificationRequest | proto.RegressionRequest,
        outputs_of: Callable[[ServedSignature], Sequence[str]],
        deadline: float | None,
    ) -> tuple[ModelVersion, ServedSignature, tuple[Arrays, int]]:
        """Run the signature of a request on its examples; return the outputs and example count."""
        version = find_version(self._core, request.model_spec)
        signature = version.signature(request.model_spec.signature_name)
        names = outputs_of(signature)
        examples = serialized_examples(request.input)
        outputs = await self._core.run(version, signature, {INPUTS: examples}, names, deadline)
        return version, signature, (outputs, len(examples))

    async def multi_inference(
        self, request: proto.MultiInferenceRequest, deadline: float | None
    ) -> proto.MultiInferenceResponse:
        """Answer MultiInference."""
        _check_tasks(request)
        examples = serialized_examples(request.input)
        plans = [self._plan(task) for task in request.tasks]
        response = proto.MultiInferenceResponse()
        for version, signature, names in plans:
            outputs = await self._core.run(version, signature, {INPUTS: examples}, names, deadline)
            _add_result(response, version, signature, outputs, len(examples))
        return response

    async def get_model_metadata(
        self, request: proto.GetModelMetadataRequest, deadline: float | None
    ) -> proto.GetModelMetadataResponse:
        """Answer GetModelMetadata."""
        del deadline
        if not request.HasField("model_spec"):
            raise InvalidArgumentError("Missing ModelSpec")
        if not request.metadata_field:
            raise InvalidArgumentError(
                "GetModelMetadataRequest must specify at least one metadata_field"
            )
        for field in request.metadata_field:
            if field != _SIGNATURE_DEF:
                raise InvalidArgumentError(f"Metadata field {field} is not supported")
        version = find_version(self._core, request.model_spec)
        response = proto.GetModelMetadataResponse(model_spec=_spec(version, ""))
        packed = response.metadata[_SIGNATURE_DEF]
        packed.type_url = _MAP_TYPE
        packed.value = signature_def_map(version).SerializeToString()
        return response

    def _plan(
        self, task: proto.InferenceTask
    ) -> tuple[ModelVersion, ServedSignature, tuple[str, ...]]:
        version = find_version(self._core, task.model_spec)
        signature = version.signature(task.model_spec.signature_name)
        if task.method_name == CLASSIFY:
            return version, signature, classification_outputs(signature)
        if task.method_name == REGRESS:
            return version, signature, regression_outputs(signature)
        raise UnimplementedError(f"Unsupported signature method_name: {task.method_name}")


def find_version(core: ServerCore, spec: proto.ModelSpec) -> ModelVersion:
    """Return the version of a model that a request names.

    Raises:
        InvalidArgumentError: it names no model.
        NotFoundError: the version is not available.
    """
    if not spec.name:
        raise InvalidArgumentError("ModelSpec has no name specified.")
    choice = spec.WhichOneof("version_choice")
    return core.manager.find(
        spec.name,
        spec.version.value if choice == "version" else None,
        spec.version_label if choice == "version_label" else None,
    )


def _check_size(name: str, tensor: proto.TensorProto, limit: int) -> None:
    """Refuse a tensor that is larger than a request may be.

    Its message may be much smaller: the last of its values stands for all that are missing.

    Raises:
        InvalidArgumentError: it is too large.
    """
    shape = [dim.size for dim in tensor.tensor_shape.dim]
    size = math.prod(shape) * max(as_dtype(tensor.dtype).size, 1)
    if size > limit:
        raise InvalidArgumentError(
            f"input {name!r} of shape {shape} has {size} bytes; the limit is {limit} "
            "(--max-request-mb)"
        )


def _spec(version: ModelVersion, signature: str) -> proto.ModelSpec:
    spec = proto.ModelSpec(name=version.model, signature_name=signature)
    spec.version.value = version.number
    return spec


def _type_name(number: int) -> str:
    """Return the name of a `DataType`, or the number of one that this version does not know."""
    value = proto.DataType.DESCRIPTOR.values_by_number.get(number)
    return str(number) if value is None else str(value.name)


def _check_tasks(request: proto.MultiInferenceRequest) -> None:
    names = {task.model_spec.name for task in request.tasks}
    if "" in names:
        raise InvalidArgumentError("Found ModelSpec with an empty model name.")
    if len(names) > 1:
        raise InvalidArgumentError(
            "All ModelSpecs in a MultiInferenceRequest must access the same model name."
        )
    signatures = [task.model_spec.signature_name for task in request.tasks]
    repeated = next((name for name in signatures if signatures.count(name) > 1), None)
    if repeated is not None:
        raise InvalidArgumentError(f"Duplicate evaluation of signature: {repeated}")


def _add_result(
    response: proto.MultiInferenceResponse,
    version: ModelVersion,
    signature: ServedSignature,
    outputs: Arrays,
    count: int,
) -> None:
    result = response.results.add(model_spec=_spec(version, signature.name))
    if signature.method_name == CLASSIFY:
        result.classification_result.CopyFrom(to_classification_result(outputs, count))
    else:
        result.regression_result.CopyFrom(to_regression_result(outputs, count))
