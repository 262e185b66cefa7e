"""The Open Inference Protocol (V2, KServe) over HTTP."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import __version__
from graphmill.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from graphmill_plugins.serving.requests.open_inference import (
    PLATFORM,
    SERVER_NAME,
    SIGNATURE_PARAMETER,
    check_input,
    check_size,
    config_of,
    datatype_of,
    find_version,
    metadata_of,
)
from graphmill_plugins.serving.requests.raw_tensors import dtype_of, from_raw, to_raw
from graphmill_plugins.serving.rest.http_request import BINARY, HttpResponse
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

_BINARY_SIZE: Final = "binary_data_size"


async def server_metadata(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2`."""
    del core, request
    extensions = ["binary_tensor_data", "model_configuration"]
    return _json({"name": SERVER_NAME, "version": __version__, "extensions": extensions})


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
        if not core.manager.is_known(request.model):
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
            "inputs": [tensor._asdict() for tensor in metadata_of(signature.inputs)],
            "outputs": [tensor._asdict() for tensor in metadata_of(signature.outputs)],
        }
    )


async def model_config(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `GET /v2/models/NAME/config`, the extension `model_configuration`."""
    version = find_version(core.manager, request.model, request.version)
    signature = version.signature("")
    return _json(config_of(version.model, signature, version.batching_of(signature)))


async def infer(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Answer `POST /v2/models/NAME/infer`."""
    length = len(request.body) if request.json_length is None else request.json_length
    document = parse_object(request.body[:length])
    binary = _BinaryData(request.body, length)
    version = find_version(core.manager, request.model, request.version)
    parameters = _typed(document, "parameters", dict, {})
    signature = version.signature(_typed(parameters, SIGNATURE_PARAMETER, str, ""))
    arrays = {}
    for tensor in _typed(document, "inputs", list, None):
        name, array = _input(tensor, signature, binary)
        if name in arrays:
            raise InvalidArgumentError(f"input {name!r} occurs twice")
        arrays[name] = array
    binary.check_end()
    is_binary = _typed(parameters, "binary_data_output", bool, False)
    requested = dict(
        _requested_output(output, is_binary) for output in _typed(document, "outputs", list, [])
    )
    identifier = _typed(document, "id", str, "")
    outputs = await core.run(version, signature, arrays, list(requested))
    chosen = {name for name in outputs if requested.get(name, is_binary)}
    return _response(version, identifier, outputs, chosen)


class _BinaryData:
    """The binary data of a request, which follows its JSON in the order of its inputs."""

    def __init__(self, body: bytes, start: int) -> None:
        if start > len(body):
            raise InvalidArgumentError(
                f"the body has {len(body)} bytes, but the length of its JSON is declared as {start}"
            )
        self._body = body
        self._start = start

    def take(self, name: str, size: int) -> bytes:
        """Return the next bytes, those of an input."""
        left = len(self._body) - self._start
        if not 0 <= size <= left:
            raise InvalidArgumentError(
                f"the binary data of input {name!r} has {size} bytes; {left} are left in the body"
            )
        self._start += size
        return self._body[self._start - size : self._start]

    def check_end(self) -> None:
        """Check that the inputs have taken all bytes."""
        left = len(self._body) - self._start
        if left:
            raise InvalidArgumentError(f"{left} bytes follow the binary data of the inputs")


def _input(
    tensor: Any, signature: ServedSignature, binary: _BinaryData
) -> tuple[str, NDArray[Any]]:
    if type(tensor) is not dict:
        raise InvalidArgumentError(f"an element of 'inputs' is not an object: {shown(tensor)}")
    name = _typed(tensor, "name", str, None)
    dtype = check_input(signature, name, _typed(tensor, "datatype", str, None))
    shape = _typed(tensor, "shape", list, None)
    if any(type(size) is not int for size in shape):
        raise InvalidArgumentError(
            f"the shape of input {name!r} is {shown(shape)}; expected a list of integers"
        )
    parameters = _typed(tensor, "parameters", dict, {})
    if _BINARY_SIZE not in parameters:
        flat, _ = flatten(name, _typed(tensor, "data", list, None))
        return name, to_array(name, flat, dtype).reshape(check_size(name, shape, len(flat)))
    if "data" in tensor:
        raise InvalidArgumentError(f"input {name!r} has both 'data' and {_BINARY_SIZE!r}; send one")
    array = from_raw(name, binary.take(name, _typed(parameters, _BINARY_SIZE, int, None)), dtype)
    return name, array.reshape(check_size(name, shape, len(array)))


def _requested_output(output: Any, is_binary: bool) -> tuple[str, bool]:
    """Return the name of an output, and whether it is to be binary data."""
    if type(output) is not dict:
        raise InvalidArgumentError(f"an element of 'outputs' is not an object: {shown(output)}")
    name: str = _typed(output, "name", str, None)
    parameters = _typed(output, "parameters", dict, {})
    if parameters.get("classification"):
        raise UnimplementedError(
            f"output {name!r} asks for the extension 'classification', which this server lacks; "
            "leave it out and take the largest elements of the output"
        )
    return name, _typed(parameters, "binary_data", bool, is_binary)


def _typed(document: dict[str, Any], key: str, kind: type, default: Any) -> Any:
    """Return a member of a JSON object, checked for its type; required if the default is None."""
    value = document.get(key, default)
    if value is None:
        raise InvalidArgumentError(f"{key!r} is missing in {shown(document)}")
    if type(value) is not kind:
        raise InvalidArgumentError(f"{key!r} is not of type {kind.__name__}: {shown(value)}")
    return value


def _response(
    version: ModelVersion, identifier: str, outputs: dict[str, Any], binary: set[str]
) -> HttpResponse:
    """Return the response with some outputs as binary data after the JSON."""
    head = {"model_name": version.model, "model_version": str(version.number)}
    if identifier:
        head["id"] = identifier
    tensors, data = [], []
    for name, value in outputs.items():
        array = np.asarray(value)
        if name in binary:
            data.append(to_raw(array, dtype_of(array)))
            tensors.append(json.dumps(_output_head(name, array, len(data[-1]))))
        else:
            tensors.append(_output(name, array))
    text = f'{json.dumps(head, ensure_ascii=False)[:-1]}, "outputs": [{",".join(tensors)}]}}'
    body = text.encode("utf-8")
    if not binary:
        return HttpResponse(body)
    return HttpResponse(b"".join((body, *data)), BINARY, json_length=len(body))


def _output(name: str, array: NDArray[Any]) -> str:
    # The texts of bytes are those of UTF-8: the protocol has no base64 in JSON.
    texts = ", ".join(element_texts(name.removesuffix("_bytes"), array))
    head = json.dumps(_output_head(name, array), ensure_ascii=False)
    return f'{head[:-1]}, "data": [{texts}]}}'


def _output_head(name: str, array: NDArray[Any], size: int | None = None) -> dict[str, Any]:
    """Return the JSON before the elements of an output; `size` is that of its binary data."""
    head = {
        "name": name,
        "datatype": datatype_of(name, dtype_of(array)),
        "shape": list(array.shape),
    }
    return head if size is None else {**head, "parameters": {_BINARY_SIZE: size}}


def _json(value: dict[str, Any], status: int = 200) -> HttpResponse:
    return HttpResponse(json.dumps(value).encode("utf-8"), status=status)
