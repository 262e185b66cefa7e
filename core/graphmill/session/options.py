"""Convert options that users give as messages, bytes or dicts to our own messages (row S1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    _M = TypeVar("_M", bound=Message)


def as_message(kind: type[_M], value: Message | bytes | Mapping[str, Any] | None, what: str) -> _M:
    """Return options as a message of class `kind`.

    Args:
        kind: the message class, such as `proto.ConfigProto`.
        value: a message of that class, TensorFlow's own message of that name, serialized bytes, a
            dict in protobuf's JSON form (field names as in the .proto file), or None for defaults.
        what: name of the argument, for error messages.

    Raises:
        InvalidArgumentError: the value is none of these, or has unknown fields.
    """
    if value is None:
        return kind()
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
        fields = ", ".join(sorted(field.name for field in kind.DESCRIPTOR.fields))
        reason = str(error).partition("\n")[0]  # later lines list the fields in camel case
        raise InvalidArgumentError(
            f"{what}: {reason} ({kind.DESCRIPTOR.name} has the fields {fields})"
        ) from error
