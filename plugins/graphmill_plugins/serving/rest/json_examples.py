"""tf.Examples in the JSON of TensorFlow Serving's REST API.

Semantics: `MakeExampleFromJsonObject` of tensorflow_serving/util/json_tensor.cc. A number with a
point or an exponent is a float, another one an integer; `{"b64": TEXT}` and texts are bytes.
"""

from __future__ import annotations

from typing import Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi.protos import proto
from graphmill_plugins.serving.rest.json_tensors import (
    decode_base64,
    is_base64,
    json_kind,
    shown,
)

_FIELDS: Final = {
    bool: "int64_list",
    int: "int64_list",
    float: "float_list",
    str: "bytes_list",
    dict: "bytes_list",
}
_INT64: Final = range(-(2**63), 2**63)


def input_of_json(document: dict[str, Any]) -> proto.Input:
    """Return the examples of a request, and their context if there is one.

    Raises:
        InvalidArgumentError: "examples" is missing or not a list, or a feature is malformed.
    """
    examples = document.get("examples")
    if type(examples) is not list:
        problem = (
            "Expecting 'examples' value to be an list/array"
            if "examples" in document
            else "When method is classify, key 'examples' is expected and was not found"
        )
        raise InvalidArgumentError(f"JSON Value: {shown(document)} {problem}")
    if not examples:
        raise InvalidArgumentError(
            f"JSON Value: {shown(document)} 'examples' value is an empty array"
        )
    parsed = proto.Input()
    target = parsed.example_list.examples
    if "context" in document:
        _fill_example(document["context"], parsed.example_list_with_context.context)
        target = parsed.example_list_with_context.examples
    for example in examples:
        _fill_example(example, target.add())
    return parsed


def _fill_example(value: Any, example: proto.Example) -> None:
    if type(value) is not dict:
        raise InvalidArgumentError(
            f"Example must be JSON object but got JSON {json_kind(value)}: {shown(value)}"
        )
    example.SetInParent()
    for name, content in value.items():
        values = content if type(content) is list else [content]
        _fill_feature(name, values, example.features.feature[name])


def _fill_feature(name: str, values: list[Any], feature: proto.Feature) -> None:
    fields = {_FIELDS.get(type(value)) for value in values}
    wrong = [v for v in values if type(v) not in _FIELDS or (type(v) is dict and not is_base64(v))]
    if wrong:
        raise InvalidArgumentError(
            f"Feature: {name} has element with unexpected JSON type: {json_kind(wrong[0])}"
        )
    if len(fields) > 1:
        raise InvalidArgumentError(
            f"Unexpected element type in feature: {name}: its values are of different types: "
            f"{shown(values)}"
        )
    feature.SetInParent()
    for field in fields:
        assert field is not None
        _values_of(feature, field).extend([_element(name, value) for value in values])


def _values_of(feature: proto.Feature, field: str) -> Any:
    return getattr(feature, field).value


def _element(name: str, value: Any) -> Any:
    if type(value) is str:
        return value.encode("utf-8", "surrogatepass")
    if type(value) is dict:
        return decode_base64(value)
    if type(value) is int and value not in _INT64:
        raise InvalidArgumentError(
            f"Feature: {name} has an integer that does not fit into int64_t: {value}"
        )
    return value
