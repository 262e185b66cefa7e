"""Convert options that users give as messages, bytes or dicts to our own messages (clause S1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from graphmill import proto
from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message

    _M = TypeVar("_M", bound=Message)

_GRAPH: Final = "GraphDef"
"""The message whose enums are checked where the graph is read, node by node."""


def as_message(kind: type[_M], value: Message | bytes | Mapping[str, Any] | None, what: str) -> _M:
    """Return options as a message of class `kind`.

    Args:
        kind: the message class, such as `proto.ConfigProto`.
        value: a message of that class, TensorFlow's own message of that name, serialized bytes, a
            dict in protobuf's JSON form (field names as in the .proto file), or None for defaults.
        what: name of the argument, for error messages.

    Raises:
        InvalidArgumentError: the value is none of these, or has unknown fields or enum values;
            the error suggests the nearest ones.
    """
    if value is None:
        return kind()
    message = _converted(kind, value, what)
    if kind.DESCRIPTOR.name != _GRAPH:
        check_enums(message, what)
    return message


def run_options_of(options: Any, run_metadata: Any = None) -> Any:
    """Return `RunOptions` as a message, with a trace level if the metadata needs one.

    Args:
        options: a message, its bytes, a dict in protobuf's JSON form, or None.
        run_metadata: the `RunMetadata` or `StepTrace` to fill, or None.

    Raises:
        InvalidArgumentError: the options are malformed.
    """
    message = None if options is None else as_message(proto.RunOptions, options, "options")
    if run_metadata is None:
        return message
    from graphmill.explain.step_trace import traced_options  # few steps are traced

    return traced_options(message, run_metadata)


def check_enums(message: Message, path: str) -> None:
    """Check that the enums of a message have values that this version knows.

    A message can hold any number in an enum: protobuf leaves the check to the program.

    Args:
        message: the message.
        path: where the message lies in the options, for the error.

    Raises:
        InvalidArgumentError: a value is unknown; names the field and the known values.
    """
    for field, value in message.ListFields():
        if field.enum_type is not None:
            for number in (value,) if isinstance(value, int) else value:
                _check_enum(field.enum_type, number, f"{path}.{field.name}")
        elif field.message_type is not None:
            for each in _messages(field, value):
                check_enums(each, f"{path}.{field.name}")


def _check_enum(enum: Any, number: int, path: str) -> None:
    if number not in enum.values_by_number:
        known = ", ".join(f"{one.number} ({one.name})" for one in enum.values)
        raise InvalidArgumentError(f"{path} is {number}; expected one of {known}")


def _messages(field: Any, value: Any) -> Iterable[Message]:
    """Return the messages in the value of a field: one, a list, or a map."""
    if field.message_type.GetOptions().map_entry:
        is_map_of_messages = field.message_type.fields_by_name["value"].message_type is not None
        return value.values() if is_map_of_messages else ()
    return value if hasattr(value, "__len__") else (value,)


def _converted(kind: type[_M], value: Message | bytes | Mapping[str, Any], what: str) -> _M:
    if isinstance(value, kind):
        return value
    if isinstance(value, bytes):
        return _parse(kind, value, what)
    if isinstance(value, dict):
        return _from_dict(kind, value, what)
    descriptor = getattr(value, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.name == kind.DESCRIPTOR.name:
        return _parse(kind, value.SerializeToString(), what)  # type: ignore[union-attr]
    raise InvalidArgumentError(
        f"{what} is a {type(value).__name__}; expected a {kind.DESCRIPTOR.name} message, its "
        "bytes, or a dict"
    )


def copy_message(source: Message, target: Message) -> None:
    """Copy a message into the caller's message, which may be of TensorFlow's class of that name."""
    if type(source) is type(target):
        target.CopyFrom(source)
    else:
        target.ParseFromString(source.SerializeToString())


def _parse(kind: type[_M], content: bytes, what: str) -> _M:
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(content)
    except DecodeError as error:
        raise InvalidArgumentError(
            f"{what}: the bytes are not a valid {kind.DESCRIPTOR.name}"
        ) from error


def _from_dict(kind: type[_M], value: dict[str, Any], what: str) -> _M:
    from google.protobuf import json_format

    try:
        return json_format.ParseDict(value, kind())
    except json_format.ParseError as error:
        # Later lines of the error list the fields in camel case.
        reason = _unknown_name(kind.DESCRIPTOR, value, what) or (
            f"{what}: {str(error).splitlines()[0]}"
        )
        raise InvalidArgumentError(reason) from error


def _unknown_name(descriptor: Any, value: Any, path: str) -> str:
    """Return the error for the first unknown field or enum value of a dict; "" if there is none.

    Args:
        descriptor: describes the message.
        value: the message as a dict; anything else has no fields to check.
        path: where the message lies in the options, for the error.
    """
    for name, item in value.items() if isinstance(value, dict) else ():
        if not isinstance(name, str):
            continue
        field = descriptor.fields_by_name.get(name) or descriptor.fields_by_camelcase_name.get(name)
        if field is None:
            names = sorted(descriptor.fields_by_name)
            return (
                f"{path} has no field {name!r}{suggest(name, names)} ({descriptor.name} has the "
                f"fields {', '.join(names)})"
            )
        reason = _unknown_in_field(field, item, f"{path}.{name}")
        if reason:
            return reason
    return ""


def _unknown_in_field(field: Any, item: Any, path: str) -> str:
    items = item if isinstance(item, list) else [item]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        field = field.message_type.fields_by_name["value"]
        items = list(item.values()) if isinstance(item, dict) else []
    if field.message_type is not None:
        reasons = (_unknown_name(field.message_type, each, path) for each in items)
        return next(filter(None, reasons), "")
    names = [] if field.enum_type is None else list(field.enum_type.values_by_name)
    for each in items:
        if names and isinstance(each, str) and each not in names:
            expected = ", ".join(names)
            return f"{path} is {each!r}{suggest(each, names)} (expected one of {expected})"
    return ""
