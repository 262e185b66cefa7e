"""The Open Inference Protocol (V2, KServe) over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from graphmill import __version__
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
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
from graphmill_plugins.serving.rest.http_request import HttpResponse
from graphmill_plugins.serving.rest.json_tensors import (
    element_texts,
    flatten,
    parse_object,
    shown,
    to_array,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from graphmill_plugins.serving.models.model_version import ModelVersion
    from graphmill_plugins.serving.models.served_signature import ServedSignature
    from graphmill_plugins.serving.requests.server_core import ServerCore
    from graphmill_plugins.serving.rest.http_request import HttpRequest


async def server_metadata(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2`."""
    del core, request
    answer = {"name": SERVER_NAME, "version": __version__, "extensions": []}
    return _json(answer)


async def live(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2/health/live`."""
    del core, request
    return _json({"live": True})


async def ready(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2/health/ready`: 503 while a model is missing, or when the server ends."""
    del request
    return _json({"ready": core.is_ready}, 200 if core.is_ready else 503)


async def model_ready(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2/models/NAME/ready`."""
    try:
        find_version(core.manager, request.model, request.version)
    except NotFoundError:
        if request.model not in core.manager.names():
            raise
        return _json({"name": request.model, "ready": False}, 503)
    return _json({"name": request.model, "ready": True})


async def model_metadata(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2/models/NAME`."""
    version = find_version(core.manager, request.model, request.version)
    signature = version.signature("")
    return _json(
        {
            "name": version.model,
            "versions": [str(n) for n in core.manager.available_versions(version.model)],
            "platform": PLATFORM,
            "inputs": [one._asdict() for one in metadata_of(signature.inputs)],
            "outputs": [one._asdict() for one in metadata_of(signature.outputs)],
        }
    )


async def infer(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `POST /v2/models/NAME/infer`."""
    document = parse_object(request.body)
    version = find_version(core.manager, request.model, request.version)
    parameters = _typed(document, "parameters", dict, {})
    signature = version.signature(_typed(parameters, SIGNATURE_PARAMETER, str, ""))
    arrays = {}
    for tensor in _typed(document, "inputs", list, None):
        name, array = _input(tensor, signature)
        if name in arrays:
            raise InvalidArgumentError(f"input {name!r} occurs twice")
        arrays[name] = array
    names = [_requested_output(output) for output in _typed(document, "outputs", list, [])]
    identifier = _typed(document, "id", str, "")
    outputs = await core.run(version, signature, arrays, names)
    return HttpResponse(_response(version, identifier, outputs).encode("utf-8"))


def _input(tensor: Any, signature: ServedSignature) -> tuple[str, NDArray[Any]]:
    if type(tensor) is not dict:
        raise InvalidArgumentError(f"an element of 'inputs' is not an object: {shown(tensor)}")
    name = _typed(tensor, "name", str, None)
    if "binary_data_size" in _typed(tensor, "parameters", dict, {}):
        raise UnimplementedError(
            f"input {name!r} uses the extension for binary data, which this server lacks; send "
            "JSON, or use gRPC"
        )
    dtype = check_input(signature, name, _typed(tensor, "datatype", str, None))
    shape = _typed(tensor, "shape", list, None)
    if any(type(size) is not int for size in shape):
        raise InvalidArgumentError(f"the shape of input {name!r} is {shown(shape)}")
    flat, _ = flatten(name, _typed(tensor, "data", list, None))
    return name, to_array(name, flat, dtype).reshape(check_size(name, shape, len(flat)))


def _requested_output(output: Any) -> str:
    if type(output) is not dict:
        raise InvalidArgumentError(f"an element of 'outputs' is not an object: {shown(output)}")
    name: str = _typed(output, "name", str, None)
    parameters = _typed(output, "parameters", dict, {})
    unsupported = [key for key in ("binary_data", "classification") if parameters.get(key)]
    if unsupported:
        raise UnimplementedError(
            f"output {name!r} asks for the extension {unsupported[0]!r}, which this server lacks"
        )
    return name


def _typed(document: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    """Return a member of an object, of a type; None as the default means that it is required."""
    value = document.get(key, default)
    if value is None:
        raise InvalidArgumentError(f"{key!r} is missing in {shown(document)}")
    if type(value) is not kind:
        raise InvalidArgumentError(f"{key!r} is not of type {kind.__name__}: {shown(value)}")
    return value


def _response(version: ModelVersion, identifier: str, outputs: dict[str, NDArray[Any]]) -> str:
    head = {"model_name": version.model, "model_version": str(version.number)}
    if identifier:
        head["id"] = identifier
    tensors = ",".join(_output(name, array) for name, array in outputs.items())
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "outputs": [{tensors}]}}'


def _output(name: str, array: NDArray[Any]) -> str:
    head = {
        "name": name,
        "datatype": datatype_of(name, as_dtype(array.dtype)),
        "shape": list(array.shape),
    }
    # The texts of bytes are those of UTF-8: the protocol has no base64 in JSON.
    texts = ", ".join(element_texts(name.removesuffix("_bytes"), array))
    return f'{json.dumps(head, ensure_ascii=False)[:-1]}, "data": [{texts}]}}'


def _json(value: dict[str, Any], status: int = 200) -> HttpResponse:
    return HttpResponse(json.dumps(value).encode("utf-8"), status=status)
