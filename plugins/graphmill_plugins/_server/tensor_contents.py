"""Extract large tensor contents from the bytes of a message, so that they are not copied.

A tensor is only extracted where its position is unambiguous. If a field occurs twice, which
protobuf merges, or the bytes are damaged, the message is left unchanged for protobuf to parse.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.errors import DataLossError
from graphmill.spi.protos import LENGTH, iterate_fields, length_delimited

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi.protos import Field

CONTENT_FIELD: Final = 4  # TensorProto.tensor_content
TENSOR_FIELD: Final = 2  # NamedTensorProto.tensor
# A tensor of numbers has a type, a shape, a version and its content. One with more fields lists
# its values one by one, which protobuf reads faster.
_MAX_FIELDS: Final = 8


class TensorField(NamedTuple):
    """The position of the tensors in a message type.

    Attributes:
        number: the field number.
        is_repeated: whether it may occur more than once.
        is_named: whether it holds `NamedTensorProto`, not `TensorProto`.
    """

    number: int
    is_repeated: bool
    is_named: bool


def take_contents(
    data: bytes, field: TensorField, large: int
) -> tuple[bytes, dict[int, memoryview]]:
    """Return a message without its large tensor contents, and the contents by tensor index."""
    try:
        entries = list(_entries(data, field))
        if len(entries) > 1 and not field.is_repeated:
            return data, {}
        return _cut_out(data, field, entries, large)
    except DataLossError:
        return data, {}


def _entries(data: bytes, field: TensorField) -> Iterator[Field]:
    number = field.number
    for part in iterate_fields(data, 0, len(data)):
        if part.number == number and part.wire_type == LENGTH:
            yield part


def _cut_out(
    data: bytes, field: TensorField, entries: list[Field], large: int
) -> tuple[bytes, dict[int, memoryview]]:
    view = memoryview(data)
    contents: dict[int, memoryview] = {}
    parts: list[bytes | memoryview] = []
    copied = 0
    for index, entry in enumerate(entries):
        span = _content(data, entry, large, is_named=field.is_named)
        if span is None:
            continue
        tensor, content = span
        rest = view[tensor.start : content.header], view[content.end : tensor.end]
        body: list[bytes | memoryview] = [*rest]
        if field.is_named:
            size = len(rest[0]) + len(rest[1])
            before = view[entry.start : tensor.header]
            body = [
                before,
                length_delimited(TENSOR_FIELD, size),
                *rest,
                view[tensor.end : entry.end],
            ]
        parts += (view[copied : entry.header], length_delimited(field.number, sum(map(len, body))))
        parts += body
        copied = entry.end
        contents[index] = view[content.start : content.end]
    parts.append(view[copied:])
    return b"".join(parts), contents


def _content(
    data: bytes, entry: Field, large: int, *, is_named: bool
) -> tuple[Field, Field] | None:
    """Return the tensor of an entry and its content, if that occurs once and is large."""
    if entry.end - entry.start < large:
        return None
    tensor: Field | None = entry
    if is_named:
        tensor = _only(data, entry, TENSOR_FIELD)
    content = _only(data, tensor, CONTENT_FIELD) if tensor else None
    if tensor is None or content is None or content.end - content.start < large:
        return None
    return tensor, content


def _only(data: bytes, parent: Field, number: int) -> Field | None:
    """Return the field `number` of a nested message, if it occurs once."""
    fields = list(islice(iterate_fields(data, parent.start, parent.end), _MAX_FIELDS + 1))
    matching = [field for field in fields if field.number == number and field.wire_type == LENGTH]
    return matching[0] if len(matching) == 1 and len(fields) <= _MAX_FIELDS else None
