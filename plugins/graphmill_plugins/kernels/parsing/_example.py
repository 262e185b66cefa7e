"""Parse serialized `Example`s and `SequenceExample`s field by field.

Semantics: tensorflow/core/util/example_proto_fast_parsing.cc; the encoding is that of
tensorflow/core/example/{example,feature}.proto. Packed floats are decoded without a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import DataLossError, InvalidArgumentError
from graphmill.spi.protos import FIXED32, LENGTH, VARINT, iterate_fields, read_varint
from graphmill_plugins.kernels._strings import string_array

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Value

_BYTES, _FLOATS, _INTS = 1, 2, 3
NUMBERS: Final[dict[int, DType]] = {
    _BYTES: dtypes.string,
    _FLOATS: dtypes.float32,
    _INTS: dtypes.int64,
}
_MAX_SCALAR_BYTES: Final = 24
"""Number of bytes up to which packed integers are decoded faster one by one than with NumPy."""


class Feature(NamedTuple):
    """A feature that is not decoded yet.

    Attributes:
        dtype: the element type of its list; None if it has no list.
        content: the bytes of the message that contains it.
        spans: start and end in `content` of each part of its list.
    """

    dtype: DType | None
    content: bytes
    spans: tuple[tuple[int, int], ...]

    def values(self) -> Value:
        """Return the values as a vector.

        Raises:
            DataLossError: the list is malformed.
        """
        parts = [_DECODERS[self.dtype](self.content, start, end) for start, end in self.spans]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def parse_features(
    content: bytes,
    start: int,
    end: int,
    features: dict[bytes, Feature],
    keys: Container[bytes],
) -> None:
    """Add features of a `Features` message by `keys` to `features`; a later one replaces others.

    Raises:
        DataLossError: the message is malformed.
    """
    for number, wire_type, _, _, first, last in iterate_fields(content, start, end):
        if number == 1:
            check_message(wire_type)
            key, spans = parse_entry(content, first, last)
            if key in keys:
                features[key] = _parse_feature(content, spans)


def parse_steps(content: bytes, spans: Sequence[tuple[int, int]]) -> list[Feature]:
    """Return the features of a `FeatureList`, one per step.

    Raises:
        DataLossError: the message is malformed.
    """
    return [
        _parse_feature(content, [(item.start, item.end)])
        for span in spans
        for item in iterate_fields(content, *span)
        if item.number == 1 and check_message(item.wire_type)
    ]


def parse_entry(content: bytes, start: int, end: int) -> tuple[bytes, list[tuple[int, int]]]:
    """Return the key of a map entry, and start and end of each part of its value.

    Raises:
        DataLossError: the entry is malformed.
    """
    key = b""
    spans = []
    for number, wire_type, _, _, first, last in iterate_fields(content, start, end):
        if number == 1:
            check_message(wire_type)
            key = content[first:last]
        elif number == 2:
            check_message(wire_type)
            spans.append((first, last))
    return key, spans


def _parse_feature(content: bytes, spans: list[tuple[int, int]]) -> Feature:
    kind = 0
    lists: list[tuple[int, int]] = []
    for span in spans:
        for number, wire_type, _, _, first, last in iterate_fields(content, *span):
            if number in NUMBERS:
                check_message(wire_type)
                if number != kind:
                    kind, lists = number, []
                lists.append((first, last))
    return Feature(NUMBERS.get(kind), content, tuple(lists))


def check_message(wire_type: int) -> bool:
    """Check that a field is length-delimited, as messages are; return True.

    Raises:
        DataLossError: it has another wire type.
    """
    if wire_type != LENGTH:
        raise DataLossError(f"a field of an example has wire type {wire_type}, expected {LENGTH}")
    return True


def _byte_strings(content: bytes, start: int, end: int) -> Value:
    items = []
    for number, wire_type, _, _, first, last in iterate_fields(content, start, end):
        if number == 1:
            check_message(wire_type)
            items.append(content[first:last])
    return string_array(items)


def _floats(content: bytes, start: int, end: int) -> Value:
    parts = []
    for number, wire_type, _, _, first, last in iterate_fields(content, start, end):
        if number != 1:
            continue
        if wire_type not in (LENGTH, FIXED32) or (last - first) % 4:
            raise DataLossError(f"a list of floats at byte {first} is malformed")
        parts.append(np.frombuffer(content, "<f4", (last - first) // 4, first))
    if not parts:
        return np.zeros(0, np.float32)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _integers(content: bytes, start: int, end: int) -> Value:
    parts: list[Any] = []
    single: list[int] = []
    for number, wire_type, value, _, first, last in iterate_fields(content, start, end):
        if number != 1:
            continue
        if wire_type == VARINT:
            single.append(value)
        elif wire_type == LENGTH:
            if single:
                parts.append(_signed(single))
                single = []
            parts.append(packed_integers(content, first, last))
        else:
            raise DataLossError(f"a list of integers at byte {first} is malformed")
    if single:
        parts.append(_signed(single))
    if not parts:
        return np.zeros(0, np.int64)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _signed(values: list[int]) -> Value:
    return np.array(values, np.uint64).view(np.int64)


def packed_integers(content: bytes, start: int, end: int) -> Value:
    """Decode packed varints: seven bits per byte, the last byte of each below 128.

    Raises:
        DataLossError: the last varint is truncated, or one has more than 64 bits.
    """
    if start == end:
        return np.zeros(0, np.int64)
    if content[end - 1] >= 128:
        raise DataLossError(f"a list of integers ends within a number at byte {end}")
    if end - start <= _MAX_SCALAR_BYTES:
        return _scalar_varints(content, start, end)
    data = np.frombuffer(content, np.uint8, end - start, start)
    ends = np.flatnonzero(data < 128)
    starts = np.empty_like(ends)
    starts[0] = 0
    starts[1:] = ends[:-1] + 1
    lengths = ends - starts + 1
    if int(lengths.max()) > 10:
        raise DataLossError(f"a number of more than 64 bits in the list at byte {start}")
    byte_indices = np.arange(len(data)) - np.repeat(starts, lengths)
    parts = (data & 0x7F).astype(np.uint64) << (7 * byte_indices).astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)


def _scalar_varints(content: bytes, start: int, end: int) -> Value:
    values = []
    offset = start
    while offset < end:
        value, offset = read_varint(content, offset, end)
        values.append(value)
    return _signed(values)


_DECODERS: Mapping[Any, Any] = {
    dtypes.string: _byte_strings,
    dtypes.float32: _floats,
    dtypes.int64: _integers,
}


def values_of(feature: Feature | None, dtype: DType, key: bytes, prefix: str) -> Value | None:
    """Return the values of a feature; None if it is missing or has no list.

    Raises:
        InvalidArgumentError: they are of another type, or malformed.
    """
    if feature is None or feature.dtype is None:
        return None
    if feature.dtype is not dtype:
        raise InvalidArgumentError(
            f"{prefix}Key: {key.decode(errors='replace')}.  Data types don't match. Data type: "
            f"{feature.dtype.name} but expected type: {dtype.name}"
        )
    try:
        return feature.values()
    except DataLossError as error:
        raise InvalidArgumentError(
            f"{prefix}Could not parse example input, feature {key.decode(errors='replace')!r}: "
            f"{error.message}"
        ) from error
