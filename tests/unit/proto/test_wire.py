"""The wire format reader agrees with protobuf's parser, and raises only typed errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors, proto
from graphmill.proto.wire import (
    LENGTH,
    VARINT,
    iterate_fields,
    length_delimited,
    read_varint,
    write_varint,
)


@given(st.integers(0, 2**64 - 1))
def test_varints_round_trip(value: int) -> None:
    encoded = write_varint(value)
    assert read_varint(encoded, 0, len(encoded)) == (value, len(encoded))


def test_malformed_varints_are_refused() -> None:
    with pytest.raises(errors.DataLossError, match="truncated"):
        read_varint(b"\x80", 0, 1)
    with pytest.raises(errors.DataLossError, match="truncated"):
        read_varint(b"", 0, 0)
    with pytest.raises(errors.DataLossError, match="64 bits"):
        read_varint(b"\xff" * 11, 0, 11)


def test_fields_of_a_message_are_found() -> None:
    node = proto.NodeDef(name="a", op="Const", input=["x", "y"])
    version = proto.VersionDef(producer=300)
    content = node.SerializeToString()
    fields = list(iterate_fields(content, 0, len(content)))
    assert [f.number for f in fields] == [1, 2, 3, 3]
    assert all(f.wire_type == LENGTH for f in fields)
    assert content[fields[1].start : fields[1].end] == b"Const"
    content = version.SerializeToString()
    (field,) = iterate_fields(content, 0, len(content))
    assert (field.number, field.wire_type, field.value) == (1, VARINT, 300)


def test_length_delimited_headers_are_written() -> None:
    payload = b"x" * 300
    content = length_delimited(5, 300) + payload
    (field,) = iterate_fields(content, 0, len(content))
    assert (field.number, content[field.start : field.end]) == (5, payload)


@pytest.mark.parametrize(
    "content",
    [
        b"\x0a\x05abc",
        b"\x0b",
        b"\x0c",
        b"\x0e",
        b"\x00",
        b"\x09\x00",
        b"\x0d\x00",
        b"\x08",
        b"\x0a",
    ],
)
def test_bad_bytes_are_typed_errors(content: bytes) -> None:
    with pytest.raises(errors.DataLossError):
        list(iterate_fields(content, 0, len(content)))


@given(st.binary(max_size=200))
def test_any_bytes_end_in_fields_or_a_typed_error(content: bytes) -> None:
    try:
        fields = list(iterate_fields(memoryview(content), 0, len(content)))
    except errors.DataLossError:
        return
    assert all(0 <= f.header < f.start <= f.end <= len(content) for f in fields)
    assert not fields or fields[-1].end == len(content)
