"""Cut large constants out of a serialized model before it is parsed.

Most bytes of a model file are the contents of a few hundred constants. Parsing the file with
the generated classes would copy each of them, used or not. So `Cutter` walks the encoding first
(`proto/wire.py`): it copies small fields byte for byte, whole runs of them at a time; it copies a
`Const`-like attr with a large `tensor_content` without that content, and records the content's
offset. The remaining message is small and is parsed as usual.

`Cutter` only cuts the usual form that every writer produces: one name in the node, one key and one
value in the attr, one tensor in the value, with elements of fixed size and as many bytes as its
shape requires. Everything else stays in the message, where the usual checks find errors in it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.proto.wire import LENGTH, VARINT, Field, iterate_fields, length_delimited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.proto.wire import Buffer

DEFAULT_THRESHOLD = 4096

TensorKey = tuple[str, str, str]
"""The owner of a tensor: function name ("" for the graph itself), node name, attr name."""

# Field numbers of the messages that are nested between a file and a tensor's content.
_SAVED_MODEL_META_GRAPHS = 2
_META_GRAPH_GRAPH_DEF = 2
_GRAPH_NODE, _GRAPH_LIBRARY = 1, 2
_LIBRARY_FUNCTION = 1
_FUNCTION_SIGNATURE, _FUNCTION_NODE_DEF = 1, 3
_OP_DEF_NAME = 1
_NODE_NAME, _NODE_ATTR = 1, 5
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_ATTR_TENSOR = 8
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_VERSION, _TENSOR_CONTENT = 1, 2, 3, 4
_SHAPE_DIM, _DIM_SIZE = 2, 1

_MAX_RANK = 64  # NumPy's limit


class CutTensor(NamedTuple):
    """The location of content that was cut out; `offset` counts from the start of the buffer."""

    offset: int
    dtype: dtypes.DType
    shape: tuple[int, ...]


class Cutter:
    """Rewrites serialized graphs without their large contents.

    Args:
        buffer: the whole serialized model.
        threshold: contents of at least this many bytes are cut out.

    Attributes:
        tensors: the locations of the contents that were cut out.
    """

    def __init__(self, buffer: Buffer, threshold: int = DEFAULT_THRESHOLD) -> None:
        self.tensors: dict[TensorKey, CutTensor] = {}
        self._buffer = buffer
        self._threshold = threshold

    def graph_def(self, start: int, end: int) -> bytes | None:
        """Return the GraphDef at `buffer[start:end]` without its large contents.

        Return None if it has no large contents, so that such a model is not copied.

        Raises:
            DataLossError: the bytes are not a valid message.
        """
        fields = iterate_fields(self._buffer, start, end)
        cut = {_GRAPH_NODE: self._graph_node, _GRAPH_LIBRARY: self._library}
        return self._rewrite(fields, start, end, cut)

    def meta_graph_def(self, start: int, end: int) -> bytes | None:
        """Return the MetaGraphDef at `buffer[start:end]` without its large contents.

        Return None if it has no large contents.
        """
        fields = iterate_fields(self._buffer, start, end)
        return self._rewrite(fields, start, end, {_META_GRAPH_GRAPH_DEF: self._inner_graph})

    def _inner_graph(self, field: Field) -> bytes | None:
        return self.graph_def(field.start, field.end)

    def _library(self, field: Field) -> bytes | None:
        fields = iterate_fields(self._buffer, field.start, field.end)
        return self._rewrite(fields, field.start, field.end, {_LIBRARY_FUNCTION: self._function})

    def _function(self, field: Field) -> bytes | None:
        fields = list(iterate_fields(self._buffer, field.start, field.end))
        signature = _single(fields, _FUNCTION_SIGNATURE)
        if signature is None:
            return None
        op_def = iterate_fields(self._buffer, signature.start, signature.end)
        name = self._text(_single(op_def, _OP_DEF_NAME))
        if not name:
            return None
        cut = {_FUNCTION_NODE_DEF: lambda inner: self._node(name, inner)}
        return self._rewrite(fields, field.start, field.end, cut)

    def _graph_node(self, field: Field) -> bytes | None:
        return self._node("", field)

    def _node(self, function: str, field: Field) -> bytes | None:
        fields = list(iterate_fields(self._buffer, field.start, field.end))
        name = self._text(_single(fields, _NODE_NAME))
        keys = [self._attr_key(inner) for inner in fields if inner.number == _NODE_ATTR]
        if name is None or len(set(keys)) < len(keys):
            return None
        cut = {_NODE_ATTR: lambda inner: self._attr(function, name, inner)}
        return self._rewrite(fields, field.start, field.end, cut)

    def _attr_key(self, field: Field) -> str | None:
        if field.wire_type != LENGTH:
            return None
        entry = iterate_fields(self._buffer, field.start, field.end)
        return self._text(_single(entry, _ENTRY_KEY))

    def _attr(self, function: str, node: str, field: Field) -> bytes | None:
        entry = list(iterate_fields(self._buffer, field.start, field.end))
        key, value = self._text(_single(entry, _ENTRY_KEY)), _single(entry, _ENTRY_VALUE)
        if key is None or value is None or (function, node, key) in self.tensors:
            return None
        tensor = self._sole_tensor(value)
        tensor_content = None if tensor is None else self._content(tensor)
        if tensor is None or tensor_content is None:
            return None
        content, self.tensors[function, node, key] = tensor_content
        # From the innermost message outwards: each enclosing message gets its new length.
        light = self._slice(tensor.start, content.header) + self._slice(content.end, tensor.end)
        light = self._replace(value, tensor, light)
        return self._replace(field, value, light)

    def _replace(self, outer: Field, inner: Field, payload: bytes) -> bytes:
        """Return the payload of `outer` with the payload of `inner` replaced by `payload`."""
        head = self._slice(outer.start, inner.header) + length_delimited(inner.number, len(payload))
        return head + payload + self._slice(inner.end, outer.end)

    def _sole_tensor(self, value: Field) -> Field | None:
        """Return the `tensor` field of an AttrValue if that is its only field."""
        fields = list(iterate_fields(self._buffer, value.start, value.end))
        if len(fields) != 1 or (fields[0].number, fields[0].wire_type) != (_ATTR_TENSOR, LENGTH):
            return None
        return fields[0]

    def _content(self, tensor: Field) -> tuple[Field, CutTensor] | None:
        """Return the content field of a TensorProto and its location, if it can be cut."""
        fields = list(iterate_fields(self._buffer, tensor.start, tensor.end))
        numbers = [field.number for field in fields]
        expected = {_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_VERSION, _TENSOR_CONTENT}
        content = _single(fields, _TENSOR_CONTENT)
        if content is None or len(set(numbers)) < len(numbers) or not expected.issuperset(numbers):
            return None
        size = content.end - content.start
        dtype = self._dtype(fields)
        shape = self._shape(_single(fields, _TENSOR_SHAPE))
        if size < self._threshold or dtype is None or shape is None:
            return None
        if math.prod(shape) * dtype.size != size:
            return None
        return content, CutTensor(content.start, dtype, shape)

    def _dtype(self, fields: list[Field]) -> dtypes.DType | None:
        """Return the element type if its elements have a fixed size in bytes."""
        matches = [field for field in fields if field.number == _TENSOR_DTYPE]
        if len(matches) != 1 or matches[0].wire_type != VARINT:
            return None
        try:
            dtype = dtypes.as_dtype(matches[0].value)
        except InvalidArgumentError:
            return None
        return None if dtype.is_ref or not dtype.size else dtype

    def _shape(self, field: Field | None) -> tuple[int, ...] | None:
        """Return the shape if every size in it is known."""
        if field is None:
            return ()
        shape = []
        for dim in iterate_fields(self._buffer, field.start, field.end):
            if dim.number != _SHAPE_DIM or dim.wire_type != LENGTH:
                return None
            inner = list(iterate_fields(self._buffer, dim.start, dim.end))
            sizes = [f.value for f in inner if f.number == _DIM_SIZE and f.wire_type == VARINT]
            shape.append(sizes[0] if sizes else 0)
            if len(sizes) > 1 or shape[-1] >= 1 << 63:
                return None
        return tuple(shape) if len(shape) <= _MAX_RANK else None

    def _rewrite(
        self,
        fields: Iterable[Field],
        start: int,
        end: int,
        cut: Mapping[int, Callable[[Field], bytes | None]],
    ) -> bytes | None:
        """Copy a message; rewrite large fields whose number is in `cut` by the function there.

        Return None if nothing was cut.
        """
        parts: list[bytes] = []
        copied = start  # everything before this offset is in `parts`
        for field in fields:
            if field.end - field.start < self._threshold or field.wire_type != LENGTH:
                continue
            rewrite = cut.get(field.number)
            payload = None if rewrite is None else rewrite(field)
            if payload is not None:
                head = length_delimited(field.number, len(payload))
                parts += [self._slice(copied, field.header), head, payload]
                copied = field.end
        if not parts:
            return None
        return b"".join([*parts, self._slice(copied, end)])

    def _text(self, field: Field | None) -> str | None:
        if field is None:
            return None
        try:
            return self._slice(field.start, field.end).decode()
        except UnicodeDecodeError:
            return None

    def _slice(self, start: int, end: int) -> bytes:
        return bytes(self._buffer[start:end])


def meta_graph_ranges(buffer: Buffer, start: int, end: int) -> list[tuple[int, int]]:
    """Return start and end of each meta graph in the SavedModel at `buffer[start:end]`."""
    return [
        (field.start, field.end)
        for field in iterate_fields(buffer, start, end)
        if field.number == _SAVED_MODEL_META_GRAPHS and field.wire_type == LENGTH
    ]


def _single(fields: Iterable[Field], number: int) -> Field | None:
    """Return the field with this number if there is exactly one and it holds bytes."""
    matches = [field for field in fields if field.number == number]
    return matches[0] if len(matches) == 1 and matches[0].wire_type == LENGTH else None
