"""Tensors in the JSON of TensorFlow Serving's REST API.

Semantics: tensorflow_serving/util/json_tensor.cc. Messages name the input and the element at fault.
"""

from __future__ import annotations

import base64
import binascii
import json
from array import array as typed_array
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill_plugins.serving.requests.open_inference import check_rank
from graphmill_plugins.serving.rest.json_decimals import decimals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from graphmill.dtypes import DType
    from graphmill.spi.models import TensorSpec

_BASE64: Final = "b64"
_BYTES_SUFFIX: Final = "_bytes"
_MAX_SHOWN: Final = 256
_NUMBERS: Final = frozenset((int, float))
_INTEGERS: Final = frozenset(
    (dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.uint8, dtypes.uint16,
     dtypes.uint32, dtypes.uint64)
)  # fmt: skip
_FLOATS: Final = frozenset((dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16))
_CODES: Final = {dtypes.float32: "f", dtypes.float64: "d"}
"""Type codes of `array.array`, which reads lists of numbers much faster than NumPy."""
_JSON_NAMES: Final = {
    type(None): "Null", bool: "Boolean", int: "Number", float: "Number", str: "String",
    list: "Array", dict: "Object",
}  # fmt: skip


def parse_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a request; NaN, Infinity and -Infinity are numbers.

    Raises:
        InvalidArgumentError: the body is not JSON, or not an object.
    """
    if not body:
        raise InvalidArgumentError("JSON Parse error: The document is empty")
    try:
        document = json.loads(body)
    except RecursionError:
        raise InvalidArgumentError(
            "JSON Parse error: lists or objects are nested too deep"
        ) from None
    except ValueError as error:  # not JSON, not UTF-8, or a number of too many digits
        raise InvalidArgumentError(f"JSON Parse error: {error}") from error
    if type(document) is not dict:
        raise InvalidArgumentError(f"JSON Value: {shown(document)} Is not object")
    return document


def tensors_of_instances(
    instances: Any, inputs: Mapping[str, TensorSpec]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of a request in row format, whose first dimension counts the instances.

    Args:
        instances: the value of "instances".
        inputs: the inputs of the signature.

    Raises:
        InvalidArgumentError: it is not a list, or its elements do not fit the inputs.
    """
    if type(instances) is not list:
        raise InvalidArgumentError(
            f"JSON Value: {shown(instances)} Expecting 'instances' to be an list/array"
        )
    if not instances:
        raise InvalidArgumentError("No values in 'instances' array")
    if _is_object(instances[0]):
        return _tensors_of_objects(instances, inputs)
    if len(inputs) != 1:
        raise InvalidArgumentError(
            "instances is a plain list, but expecting list of objects as multiple input "
            f"tensors required as per tensorinfo_map: {', '.join(inputs)}"
        )
    (name,) = inputs
    position = next((i for i, value in enumerate(instances) if _is_object(value)), None)
    if position is not None:
        raise InvalidArgumentError(
            f"Expecting value/list but got object at item {position} of input list"
        )
    return {name: _tensor(name, instances, inputs[name].dtype)}


def _tensors_of_objects(
    instances: list[Any], inputs: Mapping[str, TensorSpec]
) -> dict[str, NDArray[Any]]:
    """Return the arrays of instances that are objects with a member for each input."""
    expected = inputs.keys()
    for position, instance in enumerate(instances):
        if not _is_object(instance):
            raise InvalidArgumentError(
                f"Expecting object but got list at item {position} of input list"
            )
        if instance.keys() != expected:
            raise InvalidArgumentError(
                f"Failed to process element: {position} of 'instances' list. JSON object: "
                f"{shown(instance)} keys must be equal to: {','.join(inputs)}"
            )
    return {
        name: _tensor(name, [instance[name] for instance in instances], spec.dtype)
        for name, spec in inputs.items()
    }


def tensors_of_inputs(given: Any, inputs: Mapping[str, TensorSpec]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a request in column format.

    Args:
        given: the value of "inputs": an object of tensors, or the tensor of the only input.
        inputs: the inputs of the signature.

    Raises:
        InvalidArgumentError: an input is missing, or a value does not fit its input.
    """
    if not _is_object(given):
        if len(inputs) != 1:
            raise InvalidArgumentError(
                "inputs is a plain value/list, but expecting an object as multiple input tensors "
                f"required as per tensorinfo_map: {', '.join(inputs)}"
            )
        (name,) = inputs
        return {name: _tensor(name, given, inputs[name].dtype)}
    missing = [name for name in inputs if name not in given]
    if missing:
        raise InvalidArgumentError(f"Missing named input: {missing[0]} in 'inputs' object.")
    return {name: _tensor(name, given[name], spec.dtype) for name, spec in inputs.items()}


def to_array(name: str, flat: list[Any], dtype: DType) -> NDArray[Any]:
    """Return a vector of an input's type.

    Args:
        name: the name of the input, for errors.
        flat: its elements, as JSON has them.
        dtype: its type.

    Raises:
        InvalidArgumentError: an element has another type, or does not fit into the type.
        UnimplementedError: JSON cannot express the type.
    """
    if dtype is dtypes.string:
        return _strings(name, flat)
    kinds = set(map(type, flat))
    if dtype is dtypes.bool:
        allowed: frozenset[type] = frozenset((bool,))
    elif dtype in _INTEGERS:
        allowed = frozenset((int,))
    elif dtype in _FLOATS:
        allowed = _NUMBERS
    else:
        raise UnimplementedError(
            f"input {name!r} is of type {dtype.name}, which JSON cannot express; use gRPC"
        )
    if not kinds <= allowed:
        wrong = next(value for value in flat if type(value) not in allowed)
        raise _type_error(name, wrong, dtype)
    try:
        if (code := _CODES.get(dtype)) is not None:
            return np.frombuffer(typed_array(code, flat), dtype.as_numpy_dtype)
        with np.errstate(over="ignore"):
            return np.array(flat, dtype.as_numpy_dtype)
    except OverflowError as error:
        raise InvalidArgumentError(
            f"input {name!r}: a number does not fit into {dtype.name}: {error}"
        ) from error


def rows_as_json(outputs: Mapping[str, NDArray[Any]]) -> str:
    """Return the response to a request in row format, laid out as TensorFlow Serving does it.

    Raises:
        InvalidArgumentError: an output is a scalar, the outputs have different first dimensions, or
            JSON cannot express one.
    """
    sizes = set()
    for name, array in outputs.items():
        if not array.ndim:
            raise InvalidArgumentError(f"Tensor name: {name} has no shape information ")
        sizes.add(array.shape[0])
        if len(sizes) > 1:
            raise InvalidArgumentError(
                f"Tensor name: {name} has inconsistent batch size: {array.shape[0]} expecting: "
                f"{next(iter(outputs.values())).shape[0]}"
            )
    columns = {name: _elements(name, array) for name, array in outputs.items()}
    if len(columns) == 1:
        (texts,) = columns.values()
        return f'{{\n    "predictions": [{", ".join(texts)}\n    ]\n}}'
    names = [f"            {json.dumps(name)}: " for name in columns]
    items = []
    for row in zip(*columns.values(), strict=True):
        members = ",\n".join(name + text for name, text in zip(names, row, strict=True))
        items.append(f"\n        {{\n{members}\n        }}")
    return f'{{\n    "predictions": [{",".join(items)}\n    ]\n}}'


def columns_as_json(outputs: Mapping[str, NDArray[Any]]) -> str:
    """Return the response to a request in column format.

    Raises:
        InvalidArgumentError: JSON cannot express an output.
    """
    texts = {name: _elements(name, array[None])[0] for name, array in outputs.items()}
    if len(texts) == 1:
        (text,) = texts.values()
        return f'{{\n    "outputs": {text}\n}}'
    members = ",\n".join(f"        {json.dumps(name)}: {text}" for name, text in texts.items())
    return f'{{\n    "outputs": {{\n{members}\n    }}\n}}'


def element_texts(name: str, array: NDArray[Any]) -> list[str]:
    """Return the JSON texts of all elements of an array, in row-major order.

    Raises:
        InvalidArgumentError: JSON cannot express them.
    """
    flat = array.reshape(-1)
    kind = flat.dtype.kind
    if flat.dtype.hasobject or kind in "SU":
        as_bytes = name.endswith(_BYTES_SUFFIX)
        return [_string_text(name, value, as_bytes=as_bytes) for value in flat.tolist()]
    if kind == "f" and flat.dtype.itemsize in (4, 8):
        return decimals(flat)
    if kind in "iu":
        return [*map(str, flat.tolist())]
    if kind == "b":
        return ["true" if value else "false" for value in flat.tolist()]
    if dtypes.as_dtype(flat.dtype) in _FLOATS:
        return decimals(flat.astype(np.float32))
    raise InvalidArgumentError(
        f"Failed to write JSON value for output {name!r} of type {dtypes.as_dtype(flat.dtype).name}"
    )


def shown(value: Any) -> str:
    """Return a JSON value as text for an error, cut to a few words."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "…"


def json_kind(value: Any) -> str:
    """Return JSON's name for the type of a value."""
    return _JSON_NAMES.get(type(value), type(value).__name__)


def decode_base64(value: Any) -> bytes:
    """Return the bytes of an object `{"b64": TEXT}`.

    Raises:
        InvalidArgumentError: it is not such an object, or not base64.
    """
    if not is_base64(value):
        raise InvalidArgumentError(
            f"JSON Value: {shown(value)} not formatted correctly for base64 data"
        )
    text = value[_BASE64]
    try:
        padded = text + "=" * (-len(text) % 4)
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"Unable to base64 decode: {error}") from error


def is_base64(value: Any) -> bool:
    """Return whether a JSON value is an object `{"b64": TEXT}`."""
    return type(value) is dict and len(value) == 1 and type(value.get(_BASE64)) is str


def flatten(name: str, value: Any) -> tuple[list[Any], tuple[int, ...]]:
    """Return the elements of nested lists in row-major order, and their shape.

    Raises:
        InvalidArgumentError: the lists are not rectangular, or nested deeper than an array.
    """
    if type(value) is not list:
        return [value], ()
    shape = [len(value)]
    level = value
    while level and type(level[0]) is list:
        size = len(level[0])
        for item in level:
            if type(item) is not list:
                raise InvalidArgumentError(
                    f"input {name!r}: JSON Value: {shown(item)} found at incorrect level: "
                    f"{len(shape)} in the JSON DOM, beside lists"
                )
            if len(item) != size:
                raise InvalidArgumentError(
                    f"input {name!r}: Encountered list at unexpected size: {len(item)} at level: "
                    f"{len(shape)} expected size: {size}"
                )
        shape.append(size)
        level = [*chain.from_iterable(level)]
    if list in set(map(type, level)):
        raise InvalidArgumentError(
            f"input {name!r}: Encountered list at unexpected level: {len(shape)} expected < "
            f"{len(shape)}"
        )
    check_rank(name, len(shape))
    return level, tuple(shape)


def _is_object(value: Any) -> bool:
    return type(value) is dict and not is_base64(value)


def _tensor(name: str, value: Any, dtype: DType) -> NDArray[Any]:
    flat, shape = flatten(name, value)
    return to_array(name, flat, dtype).reshape(shape)


def _strings(name: str, flat: list[Any]) -> NDArray[np.object_]:
    array = np.empty(len(flat), object)
    for index, value in enumerate(flat):
        if type(value) is str:
            try:
                array[index] = value.encode("utf-8")
            except UnicodeEncodeError as error:  # half of a surrogate pair
                raise InvalidArgumentError(f"input {name!r}: {error}") from error
        elif type(value) is dict:
            array[index] = decode_base64(value)
        else:
            raise _type_error(name, value, dtypes.string)
    return array


def _type_error(name: str, value: Any, dtype: DType) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"input {name!r}: JSON Value: {shown(value)} Type: {json_kind(value)} is not of expected "
        f"type: {dtype.name}"
    )


def _elements(name: str, array: NDArray[Any]) -> list[str]:
    """Return the texts of the elements of an array along its first dimension."""
    texts = element_texts(name, array)
    for size in reversed(array.shape[1:]):
        if size:
            texts = [
                f"[{', '.join(texts[start : start + size])}]"
                for start in range(0, len(texts), size)
            ]
        else:  # the number of empty lists is that of the dimensions before
            texts = []
    if 0 in array.shape[1:]:
        empty: Any = np.empty(array.shape[1:], bool).tolist()
        return [json.dumps(empty)] * array.shape[0]
    return texts


def _string_text(name: str, value: Any, *, as_bytes: bool) -> str:
    data = value.encode("utf-8") if isinstance(value, str) else bytes(value)
    if as_bytes:
        text = base64.b64encode(data).decode("ascii")
        return f'{{\n                "{_BASE64}": "{text}"\n            }}'
    try:
        return json.dumps(data.decode("utf-8"), ensure_ascii=False)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            f"output {name!r} has a value that is not valid UTF-8; bytes are returned as base64 if "
            f"the name of the output ends in {_BYTES_SUFFIX!r}"
        ) from error
