"""Specs of elements as messages, as saved datasets store them.

Semantics: tensorflow/python/saved_model/nested_structure_coder.py.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from graphmill import proto
from graphmill.data.element_spec import TensorSpec
from graphmill.errors import InvalidValueError
from graphmill.ops.attrs.attr_value import shape_from_proto, shape_to_proto


def to_message(element_spec: Any) -> proto.StructuredValue:
    """Return a spec as a message.

    Raises:
        InvalidArgumentError: a part is a dataset.
    """
    message = proto.StructuredValue()
    if isinstance(element_spec, dict):
        message.dict_value.SetInParent()
        for key, part in element_spec.items():
            message.dict_value.fields[key].CopyFrom(to_message(part))
    elif hasattr(element_spec, "_fields"):
        message.named_tuple_value.name = type(element_spec).__name__
        for key, part in zip(element_spec._fields, element_spec, strict=True):
            message.named_tuple_value.values.add(key=key, value=to_message(part))
    elif isinstance(element_spec, tuple):
        message.tuple_value.SetInParent()
        message.tuple_value.values.extend(map(to_message, element_spec))
    elif isinstance(element_spec, TensorSpec):
        message.tensor_spec_value.dtype = proto.DataType.ValueType(element_spec.dtype.enum)
        shape_to_proto(_sizes(element_spec), message.tensor_spec_value.shape)
    else:
        raise InvalidValueError(
            f"save: elements with {element_spec} cannot be saved; flatten them with flat_map first"
        )
    return message


def of_message(message: proto.StructuredValue) -> Any:
    """Return the spec of a message.

    Raises:
        InvalidArgumentError: a part is not a dense tensor.
    """
    kind = message.WhichOneof("kind")
    if kind == "tensor_spec_value":
        spec = message.tensor_spec_value
        shape = shape_from_proto(spec.shape)
        sizes = None if shape is None else [None if size < 0 else size for size in shape]
        return TensorSpec(sizes, spec.dtype)
    if kind == "tuple_value":
        return tuple(map(of_message, message.tuple_value.values))
    if kind == "dict_value":
        fields = message.dict_value.fields
        return {key: of_message(fields[key]) for key in sorted(fields)}
    if kind == "named_tuple_value":
        pairs = message.named_tuple_value.values
        made = _tuple_type(message.named_tuple_value.name, [pair.key for pair in pairs])
        return made(*(of_message(pair.value) for pair in pairs))
    name = message.type_spec_value.type_spec_class_name or kind
    raise InvalidValueError(f"load: the saved elements hold a {name}, which is not supported")


def _tuple_type(name: str, fields: list[str]) -> Any:
    """Return a type of named tuples, whose names are only known from the file."""
    make: Any = namedtuple  # noqa: PYI024
    try:
        return make(name, fields)
    except ValueError as error:
        raise InvalidValueError(f"load: the saved named tuple {name!r}: {error}") from error


def _sizes(spec: TensorSpec) -> tuple[int, ...] | None:
    if spec.shape.rank is None:
        return None
    return tuple(-1 if size is None else size for size in spec.shape.as_list())
