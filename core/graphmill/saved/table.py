"""Sorted tables of keys and values in a file: the container format of TensorFlow's checkpoints.

The format is LevelDB's. Blocks contain key-value pairs in key order; each key is stored without the
prefix that it shares with the previous one, except at restart points. An index block has a key that
separates each block from the next. A footer has the position of the index. The compression type and
a checksum follow every block.

Semantics: tensorflow/core/lib/io/table_builder.cc, block_builder.cc, format.cc, table.cc.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import DataLossError, InvalidArgumentError, UnimplementedError
from graphmill.proto.wire import read_varint, write_varint
from graphmill.saved import crc
from graphmill.saved.table_block import Block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.files import Reader

MAGIC = 0xDB4775248B80FB57
BLOCK_SIZE = 262144
_RESTART_INTERVAL = 16
_TRAILER_SIZE = 5  # compression type, masked CRC
_FOOTER_SIZE = 48
_HANDLES_SIZE = 40  # two handles of two varints of at most ten bytes
_NO_COMPRESSION, _SNAPPY = 0, 1


class Handle(NamedTuple):
    """Offset and size of a block, without its trailer."""

    offset: int
    size: int

    def encode(self) -> bytes:
        """Return the two varints of an index entry."""
        return write_varint(self.offset) + write_varint(self.size)


class TableReader:
    """Read a table: look up keys, and iterate in key order.

    Blocks are read on demand; the last block is cached. Thread-safe.

    Args:
        reader: the file.
        check: whether to verify checksums (needs google-crc32c).

    Raises:
        DataLossError: the file is not a table, or damaged.
    """

    def __init__(self, reader: Reader, *, check: bool = True) -> None:
        self._reader = reader
        self._check = check
        self._last: tuple[Handle, Block] | None = None
        footer = self._read(reader.size - _FOOTER_SIZE, _FOOTER_SIZE)
        if footer[_HANDLES_SIZE:] != struct.pack("<Q", MAGIC):
            raise self._damaged("it does not end with the magic number of a table")
        try:
            _, position = _decode_handle(footer, 0)
            handle, _ = _decode_handle(footer[:_HANDLES_SIZE], position)
        except DataLossError as error:
            raise self._damaged(error.message) from error
        index = self._entries(handle)
        self._separators = [separator for separator, _ in index]
        self._handles = [self._handle(encoded) for _, encoded in index]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if it is not in the table."""
        index = bisect_left(self._separators, key)
        if index == len(self._handles):
            return None
        handle = self._handles[index]
        last = self._last  # read once: another thread may replace it
        if last is None or last[0] != handle:
            self._last = last = (handle, self._block(handle))
        try:
            return last[1].get(key)
        except DataLossError as error:
            raise self._damaged_block(handle, error) from error

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and values in the order of the file."""
        for handle in self._handles:
            yield from self._entries(handle)

    def _entries(self, handle: Handle) -> list[tuple[bytes, bytes]]:
        """Return the entries of the block at `handle`."""
        block = self._block(handle)
        try:
            return list(block.entries())
        except DataLossError as error:
            raise self._damaged_block(handle, error) from error

    def _block(self, handle: Handle) -> Block:
        """Return the block at `handle`."""
        content = self._read(handle.offset, handle.size + _TRAILER_SIZE)
        block, kind = content[: handle.size], content[handle.size]
        if self._check:
            stored = crc.unmask(struct.unpack_from("<I", content, handle.size + 1)[0])
            actual = crc.value(content[: handle.size + 1])
            if stored != actual:
                raise self._damaged(
                    f"the checksum of the block at byte {handle.offset} is {actual:#010x}, but "
                    f"{stored:#010x} is stored"
                )
        try:
            if kind == _SNAPPY:
                block = _decompress(block)
            elif kind != _NO_COMPRESSION:
                raise DataLossError(f"unknown compression type {kind}")
            return Block(block)
        except DataLossError as error:
            raise self._damaged_block(handle, error) from error

    def _damaged_block(self, handle: Handle, error: DataLossError) -> DataLossError:
        return self._damaged(f"in the block at byte {handle.offset}, {error.message}")

    def _handle(self, encoded: bytes) -> Handle:
        try:
            return _decode_handle(encoded, 0)[0]
        except DataLossError as error:
            raise self._damaged(error.message) from error

    def _read(self, offset: int, size: int) -> bytes:
        # Check before allocating: a damaged size must not allocate gigabytes.
        if offset < 0 or offset + size > self._reader.size:
            raise self._damaged(
                f"bytes {offset} to {offset + size} are needed, but it has {self._reader.size}"
            )
        content = bytearray(size)
        self._reader.read_into(offset, memoryview(content))
        return bytes(content)

    def _damaged(self, reason: str) -> DataLossError:
        return DataLossError(f"{self._reader.path} is not a table, or damaged: {reason}")


class TableWriter:
    """Write a table through `write`, a function that appends bytes to the file.

    Keys must be added in increasing order. The bytes are identical to TensorFlow's.
    """

    def __init__(self, write: Callable[[bytes], object], block_size: int = BLOCK_SIZE) -> None:
        self._write = write
        self._block_size = block_size
        self._offset = 0
        self._block = BlockWriter(_RESTART_INTERVAL)
        self._index = BlockWriter(1)
        self._last_key: bytes | None = None
        # Handle of a finished block whose index entry is not written yet: its key is the shortest
        # separator between the block's last key and the next one.
        self._pending: Handle | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry.

        Raises:
            InvalidArgumentError: `key` is not greater than the previous one.
        """
        if self._last_key is not None:
            if key <= self._last_key:
                raise InvalidArgumentError(
                    f"key {key!r} is not greater than the previous key {self._last_key!r}"
                )
            if len(key) + len(value) >= 2 * self._block_size:
                self._flush()
            if self._pending is not None:
                separator = shortest_separator(self._last_key, key)
                self._index.add(separator, self._pending.encode())
                self._pending = None
        self._last_key = key
        self._block.add(key, value)
        if self._block.size >= self._block_size:
            self._flush()

    def finish(self) -> None:
        """Write the remaining entries, the index and the footer."""
        self._flush()
        meta_index = self._write_block(BlockWriter(_RESTART_INTERVAL))
        if self._pending is not None and self._last_key is not None:
            self._index.add(short_successor(self._last_key), self._pending.encode())
        index = self._write_block(self._index)
        handles = meta_index.encode() + index.encode()
        self._write(handles.ljust(_HANDLES_SIZE, b"\0") + struct.pack("<Q", MAGIC))

    def _flush(self) -> None:
        if not self._block.is_empty:
            self._pending = self._write_block(self._block)
            self._block = BlockWriter(_RESTART_INTERVAL)

    def _write_block(self, block: BlockWriter) -> Handle:
        content = block.finish() + bytes([_NO_COMPRESSION])
        self._write(content)
        self._write(struct.pack("<I", crc.mask(crc.value(content))))
        handle = Handle(self._offset, len(content) - 1)
        self._offset += len(content) + 4
        return handle


class BlockWriter:
    """Build one block."""

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self._content = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last_key = b""

    @property
    def is_empty(self) -> bool:
        """Whether the block has no entries."""
        return not self._content

    @property
    def size(self) -> int:
        """Size in bytes of the block so far."""
        return len(self._content) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry, whose key must be greater than the previous one."""
        shared = 0
        if self._since_restart < self._interval:
            shared = _common_prefix(self._last_key, key)
        else:
            self._restarts.append(len(self._content))
            self._since_restart = 0
        self._content += write_varint(shared) + write_varint(len(key) - shared)
        self._content += write_varint(len(value)) + key[shared:] + value
        self._last_key = key
        self._since_restart += 1

    def finish(self) -> bytes:
        """Return the block: entries, restart points, number of restart points."""
        count = len(self._restarts)
        return bytes(self._content) + struct.pack(f"<{count + 1}I", *self._restarts, count)


def shortest_separator(start: bytes, limit: bytes) -> bytes:
    """Return a short key >= `start` and < `limit`, provided that `start` < `limit`."""
    shared = _common_prefix(start, limit)
    if shared < min(len(start), len(limit)):
        byte = start[shared]
        if byte < 0xFF and byte + 1 < limit[shared]:
            return start[:shared] + bytes([byte + 1])
    return start


def short_successor(key: bytes) -> bytes:
    """Return a short key >= `key`."""
    for position, byte in enumerate(key):
        if byte != 0xFF:
            return key[:position] + bytes([byte + 1])
    return key


def _common_prefix(left: bytes, right: bytes) -> int:
    length = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        length += 1
    return length


def _decode_handle(encoded: bytes, position: int) -> tuple[Handle, int]:
    offset, position = read_varint(encoded, position, len(encoded))
    size, position = read_varint(encoded, position, len(encoded))
    return Handle(offset, size), position


def _decompress(block: bytes) -> bytes:
    """Decompress a snappy block, which TensorFlow does not write, but other programs may."""
    try:
        cramjam = import_module("cramjam")
    except ImportError as error:
        raise UnimplementedError(
            "the table is compressed with snappy; pip install cramjam to read it"
        ) from error
    try:
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DataLossError(f"snappy: {error}") from error
