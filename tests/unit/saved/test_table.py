"""Sorted tables round-trip at every block size; damage is a typed error."""

from __future__ import annotations

import contextlib
import struct
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors, files
from graphmill.proto.wire import read_varint
from graphmill.saved import table_block
from graphmill.saved.table import (
    BlockWriter,
    TableReader,
    TableWriter,
    short_successor,
    shortest_separator,
)
from graphmill.saved.table_block import Block

pytest.importorskip("google_crc32c")

keys = st.binary(max_size=8) | st.text("ab", max_size=12).map(str.encode)
tables = st.dictionaries(keys, st.binary(max_size=40), max_size=60)


def encode(items: dict[bytes, bytes], block_size: int = 1 << 18) -> bytes:
    content = bytearray()
    writer = TableWriter(content.extend, block_size)
    for key in sorted(items):
        writer.add(key, items[key])
    writer.finish()
    return bytes(content)


def opened(content: bytes, *, check: bool = True) -> TableReader:
    return TableReader(files.BytesReader(content, "t.index"), check=check)


@given(tables, st.sampled_from([1, 20, 100, 1 << 18]))
def test_items_are_read_back(items: dict[bytes, bytes], block_size: int) -> None:
    table = opened(encode(items, block_size))
    assert list(table.items()) == sorted(items.items())
    assert all(table.get(key) == value for key, value in items.items())


@given(tables, keys)
def test_missing_keys_have_no_value(items: dict[bytes, bytes], key: bytes) -> None:
    items.pop(key, None)
    assert opened(encode(items, 20)).get(key) is None


@given(st.binary(max_size=5), st.binary(max_size=5))
def test_separators_are_between_their_keys(left: bytes, right: bytes) -> None:
    left, right = sorted((left, right))
    if left < right:
        assert left <= shortest_separator(left, right) < right
    assert short_successor(left) >= left


def test_keys_must_come_in_order() -> None:
    writer = TableWriter(bytearray().extend)
    writer.add(b"b", b"")
    for key in (b"a", b"b"):
        with pytest.raises(errors.InvalidArgumentError, match="is not greater than"):
            writer.add(key, b"")


GOOD = encode({b"": b"header", b"name": b"value" * 20, b"name2": b"x"})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "needed"),
        (GOOD[:-1], "magic"),
        (GOOD[:-8] + bytes(8), "magic"),
        (GOOD[20:], "checksum"),
        (b"X" + GOOD[1:], "checksum"),
    ],
)
def test_damaged_table_is_reported(content: bytes, words: str) -> None:
    with pytest.raises(errors.DataLossError, match=words) as caught:
        list(opened(content).items())
    assert "t.index" in caught.value.message


def test_checksum_is_compared_only_on_request() -> None:
    content = bytearray(GOOD)
    content[content.index(b"value")] = ord("V")
    with pytest.raises(errors.DataLossError, match="checksum"):
        opened(bytes(content)).get(b"name")
    assert opened(bytes(content), check=False).get(b"name") == b"Value" + b"value" * 19


def compressed() -> bytes:
    """Return a table whose blocks are marked as compressed, but are not."""
    content = bytearray(encode({b"k": b"v" * 100}))
    meta_index, _ = read_varint(bytes(content), len(content) - 48, len(content))
    content[meta_index - 5] = 1  # the first byte of the trailer before it
    return bytes(content)


def test_compressed_blocks_need_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(errors.UnimplementedError, match="pip install cramjam"):
        opened(compressed(), check=False).get(b"k")


def test_compressed_blocks_are_read_with_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    def decompress(block: bytes) -> bytes:
        if not block:
            raise ValueError("empty")
        return block

    snappy = SimpleNamespace(decompress_raw=decompress)
    library = SimpleNamespace(snappy=snappy, DecompressionError=ValueError)
    monkeypatch.setitem(sys.modules, "cramjam", library)
    assert opened(compressed(), check=False).get(b"k") == b"v" * 100


@settings(max_examples=400)
@given(st.data())
def test_any_damage_is_a_typed_error(data: st.DataObject) -> None:
    content = bytearray(GOOD)
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    damaged = bytes(content[data.draw(st.integers(0, 3)) : data.draw(st.integers(0, len(content)))])
    with contextlib.suppress(errors.OpError):
        table = opened(damaged, check=False)
        table.get(b"name")
        list(table.items())


@given(st.binary(max_size=100))
def test_any_block_is_entries_or_a_typed_error(block: bytes) -> None:
    with contextlib.suppress(errors.DataLossError):
        found = [key for key, _ in Block(block).entries()]
        assert found == sorted(set(found))


@given(st.binary(max_size=100), st.binary(max_size=3))
def test_look_up_in_any_block_is_a_value_or_a_typed_error(block: bytes, key: bytes) -> None:
    with contextlib.suppress(errors.DataLossError):
        Block(block).get(key)


KEYS = st.binary(min_size=1, max_size=4)


def block_of(keys: list[bytes]) -> Block:
    writer = BlockWriter(3)
    for key in keys:
        writer.add(key, key[::-1])
    return Block(writer.finish())


@given(st.sets(KEYS, max_size=30), st.lists(KEYS, min_size=40, max_size=40))
def test_look_ups_find_what_iteration_finds(keys: set[bytes], others: list[bytes]) -> None:
    """The first look-ups search the block, later ones use all its entries."""
    block = block_of(sorted(keys))
    entries = dict(block.entries())
    assert entries == {key: key[::-1] for key in keys}
    for key in (*others, *keys):
        assert block.get(key) == entries.get(key)


def test_one_look_up_decodes_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"{index:05d}".encode() for index in range(2000)]
    block, decoded = block_of(keys), []
    original = table_block.read_varint
    monkeypatch.setattr(
        table_block, "read_varint", lambda *args: decoded.append(args) or original(*args)
    )
    assert block.get(b"01234") == b"43210"
    assert 0 < len(decoded) < 100
    for key in keys:
        assert block.get(key) == key[::-1]
    assert len(decoded) < 3 * 2000 + 100 * table_block._MAX_SEARCHES


def test_restart_point_after_the_entries_is_an_error() -> None:
    writer = BlockWriter(1)
    writer.add(b"a", b"")
    writer.add(b"b", b"")
    content = bytearray(writer.finish())
    content[-8:-4] = struct.pack("<I", 99)
    with pytest.raises(errors.DataLossError, match="restart point 1 is at byte 99"):
        Block(bytes(content)).get(b"b")
