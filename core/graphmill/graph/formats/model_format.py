"""Detect the kind of message and the encoding of a model file from its content.

A file's name is only a hint: `.pb` is used for frozen graphs and SavedModels alike, and `.meta`
for binary and text MetaGraphs. Binary files are recognized by whether their first fields match the
messages' descriptors, text by its first field name, JSON by its first key.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill import proto
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.proto.wire import FIXED32, FIXED64, LENGTH, VARINT, Field, iterate_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, FieldDescriptor

    from graphmill.proto.wire import Buffer


class Kind(Enum):
    """The message that a model file holds."""

    GRAPH_DEF = "GraphDef"
    META_GRAPH_DEF = "MetaGraphDef"
    SAVED_MODEL = "SavedModel"

    @property
    def message(self) -> type[Any]:
        """The generated class."""
        message_class: type[Any] = getattr(proto, self.value)
        return message_class


class Encoding(Enum):
    """The encoding of a message in a file."""

    BINARY = "binary"
    TEXT = "text"
    JSON = "JSON"


class ModelFormat(NamedTuple):
    """The kind of message in a model file, and its encoding."""

    kind: Kind
    encoding: Encoding


MAX_DEPTH = 100
"""Messages nested deeper than this are refused in text and JSON, as protobuf does in binary."""

_CHECKED_FIELDS = 16  # of each message: enough to distinguish the kinds, few enough to be fast
_CHECKED_LEVELS = 4
_CHECKED_IN_ALL = 64  # fields on all levels together, most of which are the attrs of a few nodes
# Patterns are compiled on use, because most models are binary.
_OP_NAME = rb"[A-Za-z0-9_.>][A-Za-z0-9_.>\\/-]*"
_TEXT_TOKEN = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*|([{}<>\[\]])'
_JSON_TOKEN = r'"(?:\\.|[^"\\])*"|([{}\[\]])'
_FIRST_FIELD = r"(?:\s|#[^\n]*(?:\n|$))*([A-Za-z_]\w*)"
_CONTROL_BYTES = bytes(set(range(32)) - set(b"\t\n\v\f\r")) + b"\x7f"
_LFS_POINTER = b"version https://git-lfs.github.com/spec/"
_TABLE_MAGIC = bytes.fromhex("57fb808b247547db")

# offset, magic bytes, description, advice
_FOREIGN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras .h5)", "export it as a SavedModel first"),
    (0, b"PK\x03\x04", "a zip archive (a Keras .keras file?)", "export it as a SavedModel first"),
    (4, b"TFL3", "a TensorFlow Lite model", "use the SavedModel or graph that it was made from"),
    (0, b"\x1f\x8b", "a gzip file", "unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array", "give the model, not its input"),
    (0, b"\x89PNG", "a PNG image", "give the model, not its input"),
    (0, b"\xff\xd8\xff", "a JPEG image", "give the model, not its input"),
    (0, b"ML\xefR", "MLIR bytecode", "use the SavedModel that it was made from"),
)  # fmt: skip


def detect(buffer: Buffer, path: str) -> ModelFormat:
    """Return the kind and encoding of the file with this content.

    Args:
        buffer: the whole content.
        path: name of the file, for messages and as a hint if two kinds match.

    Raises:
        InvalidArgumentError: it is empty or not a model; the message says what it looks like.
    """
    if not len(buffer):
        raise InvalidArgumentError(f"{path} is empty; a model file was expected")
    if bytes(buffer[: len(_LFS_POINTER)]) == _LFS_POINTER:
        raise InvalidArgumentError(
            f"{path} is a pointer of Git LFS, which stands for the file; fetch the file itself "
            "with `git lfs pull`"
        )
    kinds = list(Kind)
    if path.endswith(".meta"):
        kinds.sort(key=lambda kind: kind is not Kind.META_GRAPH_DEF)
    for kind in kinds:
        if _fits_kind(buffer, kind):
            return ModelFormat(kind, Encoding.BINARY)
    if _is_text(buffer):
        return _detect_text(buffer, path)
    raise InvalidArgumentError(f"{path} is not a model: {_what_else(buffer)}")


def check_depth(text: str, encoding: Encoding, path: str) -> None:
    """Refuse text whose braces nest deeper than `MAX_DEPTH`, because parsers recurse as deeply.

    Raises:
        InvalidArgumentError: the text nests deeper.
    """
    token = _JSON_TOKEN if encoding is Encoding.JSON else _TEXT_TOKEN
    # JSON has a brace and a bracket per repeated message.
    limit = 2 * MAX_DEPTH if encoding is Encoding.JSON else MAX_DEPTH
    depth = 0
    for match in re.finditer(token, text):
        brace = match.group(1)
        if brace:
            depth += 1 if brace in "{<[" else -1
            if depth > limit:
                line = text.count("\n", 0, match.start()) + 1
                raise InvalidArgumentError(
                    f"{path}, line {line}: messages are nested more than {MAX_DEPTH} deep"
                )


def text_kind(name: str) -> Kind | None:
    """Return the kind of message that has a field `name` (in text or JSON spelling)."""
    for kind in Kind:
        fields = kind.message.DESCRIPTOR.fields
        if any(name in (field.name, field.json_name) for field in fields):
            return kind
    return None


def _fits_kind(buffer: Buffer, kind: Kind) -> bool:
    left = iter(range(_CHECKED_IN_ALL))
    return _fits(buffer, 0, len(buffer), kind.message.DESCRIPTOR, _CHECKED_LEVELS, left)


def _fits(
    buffer: Buffer, start: int, end: int, message: Descriptor, levels: int, left: Iterator[int]
) -> bool:
    """Return whether the first fields of `buffer[start:end]` are fields of `message`.

    `left` yields an item for each field that may still be checked.
    """
    seen = []
    try:
        for field in iterate_fields(buffer, start, end):
            if next(left, None) is None:
                return True
            description = message.fields_by_number.get(field.number)
            if description is None or not _fits_field(buffer, field, description, levels, left):
                return False
            seen.append(field.number)
            if len(seen) == _CHECKED_FIELDS:
                break
    except DataLossError:
        # The end of a truncated file: the fields before it decide.
        if end < len(buffer) or not seen:
            return False
    # Every node has an op, which distinguishes it from other messages with a string first.
    return message.name != "NodeDef" or 2 in seen


def _fits_field(
    buffer: Buffer,
    field: Field,
    description: FieldDescriptor,
    levels: int,
    left: Iterator[int],
) -> bool:
    if field.wire_type != _wire_type(description):
        is_packed = field.wire_type == LENGTH and description.is_repeated
        return is_packed and description.cpp_type < description.CPPTYPE_STRING
    if field.wire_type != LENGTH:
        return True
    if description.message_type is not None:
        if not levels:
            return True
        kind = description.message_type
        return _fits(buffer, field.start, field.end, kind, levels - 1, left)
    if description.full_name == "graphmill.NodeDef.op":
        return re.fullmatch(_OP_NAME, bytes(buffer[field.start : field.end])) is not None
    return description.type == description.TYPE_BYTES or _is_utf8(buffer, field)


def _is_utf8(buffer: Buffer, field: Field) -> bool:
    try:
        bytes(buffer[field.start : field.end]).decode()
    except UnicodeDecodeError:
        return False
    return True


def _wire_type(description: FieldDescriptor) -> int:
    if description.type in (description.TYPE_FLOAT, description.TYPE_FIXED32):
        return FIXED32
    if description.type in (description.TYPE_DOUBLE, description.TYPE_FIXED64):
        return FIXED64
    is_length = description.cpp_type >= description.CPPTYPE_STRING
    return LENGTH if is_length else VARINT


def _is_text(buffer: Buffer) -> bool:
    """Return whether the content starts like text: no control characters in its first part."""
    head = bytes(buffer[:4096])
    return head == head.translate(None, _CONTROL_BYTES)


def _detect_text(buffer: Buffer, path: str) -> ModelFormat:
    """Return the format of a text or JSON file."""
    head = bytes(buffer[: 1 << 16]).decode("utf-8", "replace").lstrip("\ufeff")
    if head.lstrip().startswith("{"):
        match = re.search(r'"(\w+)"\s*:', head)
        encoding = Encoding.JSON
    else:
        match = re.match(_FIRST_FIELD, head)
        encoding = Encoding.TEXT
    name = match.group(1) if match else ""
    kind = text_kind(name)
    if kind is None:
        detail = f"its first field is {name!r}" if name else f"it begins with {head[:20]!r}"
        raise InvalidArgumentError(
            f"{path} is {encoding.value}, but not a GraphDef, MetaGraphDef or SavedModel: {detail}"
        )
    return ModelFormat(kind, encoding)


def _what_else(buffer: Buffer) -> str:
    """Return a description of the apparent format of other content, with advice."""
    if b".npy" in bytes(buffer[:128]):  # first, because an .npz file is also a zip archive
        return "it looks like NumPy arrays (.npz); give the model, not its input"
    for offset, magic, description, advice in _FOREIGN:
        if bytes(buffer[offset : offset + len(magic)]) == magic:
            return f"it looks like {description}; {advice}"
    if bytes(buffer[-len(_TABLE_MAGIC) :]) == _TABLE_MAGIC:
        return (
            "it looks like the index of a checkpoint, which has variables and no graph; give the "
            "checkpoint's prefix (the name without .index) to `graphmill show`, or to "
            "graphmill.train.load_checkpoint in Python"
        )
    if _is_onnx(buffer):
        return "it looks like an ONNX model; only TensorFlow's formats are read"
    return (
        "its bytes are neither a GraphDef, a MetaGraphDef, a SavedModel nor text; if it was "
        "copied or downloaded, compare its size with the original's"
    )


def _is_onnx(buffer: Buffer) -> bool:
    """Return whether the top-level fields are those of an ONNX ModelProto with a graph."""
    try:
        fields = {field.number: field.wire_type for field in iterate_fields(buffer, 0, len(buffer))}
    except DataLossError:
        return False
    return fields.get(1) == VARINT and fields.get(7) == LENGTH and fields.get(8) == LENGTH
