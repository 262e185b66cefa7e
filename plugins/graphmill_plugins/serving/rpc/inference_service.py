"""The Open Inference Protocol (V2, KServe) over gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import __version__, dtypes
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.spi.protos import proto
from graphmill_plugins.serving.requests.open_inference import (
    PLATFORM,
    SERVER_NAME,
    SIGNATURE_PARAMETER,
    check_input,
    check_size,
    datatype_of,
    find_version,
    metadata_of,
)
from graphmill_plugins.serving.requests.raw_tensors import (
    dtype_of,
    elements,
    from_raw,
    object_vector,
    to_raw,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from graphmill.dtypes import DType
    from graphmill_plugins.serving.models.served_signature import ServedSignature
    from graphmill_plugins.serving.requests.server_core import ServerCore

SERVICE: Final = "inference.GRPCInferenceService"
_CONTENTS: Final = {
    dtypes.bool: "bool_contents",
    dtypes.int8: "int_contents",
    dtypes.int16: "int_contents",
    dtypes.int32: "int_contents",
    dtypes.int64: "int64_contents",
    dtypes.uint8: "uint_contents",
    dtypes.uint16: "uint_contents",
    dtypes.uint32: "uint_contents",
    dtypes.uint64: "uint64_contents",
    dtypes.float32: "fp32_contents",
    dtypes.float64: "fp64_contents",
    dtypes.string: "bytes_contents",
}


class InferenceService:
    """The methods of the service; each takes a request and the deadline of its client.

    Args:
        core: the state of the server.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    async def server_live(
        self, request: proto.ServerLiveRequest, deadline: float | None
    ) -> proto.ServerLiveResponse:
        """Answer ServerLive."""
        del request, deadline
        return proto.ServerLiveResponse(live=True)

    async def server_ready(
        self, request: proto.ServerReadyRequest, deadline: float | None
    ) -> proto.ServerReadyResponse:
        """Answer ServerReady."""
        del request, deadline
        return proto.ServerReadyResponse(ready=self._core.is_ready)

    async def model_ready(
        self, request: proto.ModelReadyRequest, deadline: float | None
    ) -> proto.ModelReadyResponse:
        """Answer ModelReady."""
        del deadline
        try:
            find_version(self._core.manager, request.name, request.version)
        except NotFoundError:
            if not self._core.manager.is_known(request.name):
                raise
            return proto.ModelReadyResponse(ready=False)
        return proto.ModelReadyResponse(ready=True)

    async def server_metadata(
        self, request: proto.ServerMetadataRequest, deadline: float | None
    ) -> proto.ServerMetadataResponse:
        """Answer ServerMetadata."""
        del request, deadline
        return proto.ServerMetadataResponse(name=SERVER_NAME, version=__version__)

    async def model_metadata(
        self, request: proto.ModelMetadataRequest, deadline: float | None
    ) -> proto.ModelMetadataResponse:
        """Answer ModelMetadata."""
        del deadline
        version = find_version(self._core.manager, request.name, request.version)
        signature = version.signature("")
        numbers = self._core.manager.available_versions(version.model)
        response = proto.ModelMetadataResponse(
            name=version.model, versions=map(str, numbers), platform=PLATFORM
        )
        for tensor in metadata_of(signature.inputs):
            response.inputs.add(**tensor._asdict())
        for tensor in metadata_of(signature.outputs):
            response.outputs.add(**tensor._asdict())
        return response

    async def model_infer(
        self, request: proto.ModelInferRequest, deadline: float | None
    ) -> proto.ModelInferResponse:
        """Answer ModelInfer; outputs are raw if the inputs were."""
        version = find_version(self._core.manager, request.model_name, request.model_version)
        name = request.parameters[SIGNATURE_PARAMETER].string_param if request.parameters else ""
        signature = version.signature(name)
        arrays = _inputs(request, signature)
        names = [output.name for output in request.outputs]
        outputs = await self._core.run(version, signature, arrays, names, deadline)
        response = proto.ModelInferResponse(
            model_name=version.model, model_version=str(version.number), id=request.id
        )
        _fill_outputs(response, outputs, is_raw=bool(request.raw_input_contents))
        return response


def _inputs(
    request: proto.ModelInferRequest, signature: ServedSignature
) -> dict[str, NDArray[Any]]:
    raw = request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise InvalidArgumentError(
            f"the request has {len(request.inputs)} inputs and {len(raw)} raw_input_contents"
        )
    arrays: dict[str, NDArray[Any]] = {}
    for index, tensor in enumerate(request.inputs):
        if tensor.name in arrays:
            raise InvalidArgumentError(f"input {tensor.name!r} occurs twice")
        dtype = check_input(signature, tensor.name, tensor.datatype)
        if raw:
            if tensor.HasField("contents"):
                raise InvalidArgumentError(
                    f"input {tensor.name!r} has contents, but the request has raw_input_contents"
                )
            flat = from_raw(tensor.name, raw[index], dtype)
        else:
            flat = _from_contents(tensor, dtype)
        arrays[tensor.name] = flat.reshape(check_size(tensor.name, tensor.shape, len(flat)))
    return arrays


def _from_contents(tensor: proto.ModelInferRequest.InferInputTensor, dtype: DType) -> NDArray[Any]:
    field = _CONTENTS.get(dtype)
    if field is None:
        raise InvalidArgumentError(
            f"input {tensor.name!r} of {tensor.datatype} must be sent as raw_input_contents"
        )
    values = getattr(tensor.contents, field)
    if dtype is dtypes.string:
        return object_vector(list(values))
    try:
        return np.array(values, dtype.as_numpy_dtype)
    except OverflowError as error:
        raise InvalidArgumentError(
            f"input {tensor.name!r}: a number does not fit into {dtype.name}: {error}"
        ) from error


def _fill_outputs(
    response: proto.ModelInferResponse, outputs: Mapping[str, Any], *, is_raw: bool
) -> None:
    arrays = {name: np.asarray(value) for name, value in outputs.items()}
    types = {name: dtype_of(array) for name, array in arrays.items()}
    is_raw = is_raw or any(dtype not in _CONTENTS for dtype in types.values())
    for name, array in arrays.items():
        dtype = types[name]
        tensor = response.outputs.add(
            name=name, datatype=datatype_of(name, dtype), shape=array.shape
        )
        if is_raw:
            response.raw_output_contents.append(to_raw(array, dtype))
        else:
            getattr(tensor.contents, _CONTENTS[dtype]).extend(elements(array, dtype))
