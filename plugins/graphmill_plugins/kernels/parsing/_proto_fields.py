"""Find the fields of protobuf messages by name, for ops whose attrs describe a message.

Semantics: tensorflow/core/util/proto/descriptors.cc, proto_utils.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.message import DecodeError

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import files
from graphmill.spi.protos import proto

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from graphmill.spi.files import Broker

_LOCAL: Final = ("", "local://")
_BYTES: Final = b"bytes://"
_THEIR_PACKAGE, _OUR_PACKAGE = "tensorflow.", "graphmill."

_SIGNED: Final = (dtypes.int32, dtypes.int64)
_UNSIGNED: Final = (dtypes.uint32, dtypes.uint64)
_TYPES: Final = {
    FieldDescriptor.TYPE_DOUBLE: (dtypes.float64,),
    FieldDescriptor.TYPE_FLOAT: (dtypes.float32, dtypes.float64),
    FieldDescriptor.TYPE_INT64: (dtypes.int64,),
    FieldDescriptor.TYPE_UINT64: (dtypes.uint64,),
    FieldDescriptor.TYPE_INT32: _SIGNED,
    FieldDescriptor.TYPE_FIXED64: (dtypes.uint64,),
    FieldDescriptor.TYPE_FIXED32: _UNSIGNED,
    FieldDescriptor.TYPE_BOOL: (dtypes.bool,),
    FieldDescriptor.TYPE_STRING: (dtypes.string,),
    FieldDescriptor.TYPE_GROUP: (dtypes.string,),
    FieldDescriptor.TYPE_MESSAGE: (dtypes.string,),
    FieldDescriptor.TYPE_BYTES: (dtypes.string,),
    FieldDescriptor.TYPE_UINT32: _UNSIGNED,
    FieldDescriptor.TYPE_ENUM: (dtypes.int32,),
    FieldDescriptor.TYPE_SFIXED32: _SIGNED,
    FieldDescriptor.TYPE_SFIXED64: (dtypes.int64,),
    FieldDescriptor.TYPE_SINT32: _SIGNED,
    FieldDescriptor.TYPE_SINT64: (dtypes.int64,),
}


def find_message(source: str, name: str, broker: Broker) -> Any:
    """Return the descriptor of a message type.

    Args:
        source: where descriptors come from: `local://` (messages that the program has), the path of
            a file with a serialized `FileDescriptorSet`, or `bytes://` and such a set.
        name: the full name of the message type.
        broker: opens the file.

    Raises:
        InvalidArgumentError: the source is not valid, or has no such message.
    """
    local = source in _LOCAL
    pool = descriptor_pool.Default() if local else _pool_of(_descriptor_set(source, broker))
    candidates = [name]
    if local and name.startswith(_THEIR_PACKAGE):
        candidates.append(_loaded_twin(name.removeprefix(_THEIR_PACKAGE)))
    for candidate in candidates:
        try:
            return pool.FindMessageTypeByName(candidate)
        except (KeyError, TypeError):  # a TypeError for a name that is not UTF-8
            continue
    raise InvalidArgumentError(
        f"no descriptor found for message type {name} in descriptor_source {source[:80]!r}"
    )


def _loaded_twin(name: str) -> str:
    """Return the name of our message with TensorFlow's encoding, after importing its module."""
    top = name.partition(".")[0]
    getattr(proto, top, None)  # imports the module of the message, if there is one
    return _OUR_PACKAGE + name


def _descriptor_set(source: str, broker: Broker) -> bytes:
    content = source.encode("utf-8", "surrogateescape")
    if content.startswith(_BYTES):
        return content[len(_BYTES) :]
    path = files.as_path(source)
    if not broker.exists(path):
        raise InvalidArgumentError(
            f"descriptor_source {source!r} is neither 'local://', 'bytes://' and a serialized "
            "FileDescriptorSet, nor the path of a file with one"
        )
    return broker.read_bytes(path)


def _pool_of(content: bytes) -> Any:
    """Return a pool with the files of a serialized `FileDescriptorSet`."""
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in FileDescriptorSet.FromString(content).file:
            pool.AddSerializedFile(file.SerializeToString())
    except DecodeError as error:
        raise InvalidArgumentError(
            "descriptor_source has no serialized FileDescriptorSet: it cannot be parsed"
        ) from error
    except TypeError as error:  # what protobuf raises for a descriptor that is not valid
        raise InvalidArgumentError(
            f"descriptor_source has a file that is not valid: {error}"
        ) from error
    return pool


def find_fields(message: Any, names: Sequence[str], *, extensions: bool) -> list[Any]:
    """Return the descriptors of fields.

    Args:
        message: the descriptor of the message.
        names: the names of the fields.
        extensions: whether extensions can be found too, by their full names.

    Raises:
        InvalidArgumentError: the message has no such field.
    """
    by_name = dict(message.fields_by_name)
    if extensions:
        all_extensions = message.file.pool.FindAllExtensions(message)
        by_name = {extension.full_name: extension for extension in all_extensions} | by_name
    for name in names:
        if name not in by_name:
            raise InvalidArgumentError(f"unknown field {name} of message {message.full_name}")
    return [by_name[name] for name in names]


def check_type(field: Any, dtype: np.dtype[Any]) -> None:
    """Raise InvalidArgumentError unless a tensor of `dtype` can hold the values of a field."""
    allowed = _TYPES[field.type]
    if dtypes.as_dtype(dtype) not in allowed:
        raise InvalidArgumentError(
            f"field {field.full_name} needs a tensor of {' or '.join(t.name for t in allowed)}, "
            f"not {dtypes.as_dtype(dtype).name}"
        )
