"""Sorted tables of keys and values in a file: the container of TensorFlow's checkpoints.

The format is LevelDB's: blocks of key-value pairs in key order, each key without the prefix it
shares with the one before, with restart points where it is whole; an index block with a key
that separates each block from the next; a footer that says where the index is. Every block is
followed by its compression type and a checksum.

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
    """Where a block lies, without its trailer."""

    offset: int
    size: int

    def encode(self) -> bytes:
        """Return the two varints of an index entry."""
        return write_varint(self.offset) + write_varint(self.size)


class TableReader:
    """Reads a table: look-up by key, and iteration in key order.

    Blocks are read when they are needed; the one used last is kept. Thread-safe.

    Args:
        reader: the file.
        check: whether to compare checksums (needs google-crc32c).

    Raises:
        DataLossError: the file is not a table, or damaged.
    """

    def __init__(self, reader: Reader, *, check: bool = True) -> None:
        self._reader = reader
        self._check = check
        self._last: tuple[Handle, dict[bytes, bytes]] | None = None
        footer = self._read(reader.size - _FOOTER_SIZE, _FOOTER_SIZE)
        if footer[_HANDLES_SIZE:] != struct.pack("<Q", MAGIC):
            raise self._damage("it does not end with the mark of a table (bad magic number)")
        try:
            _, position = _decode_handle(footer, 0)
            handle, _ = _decode_handle(footer[:_HANDLES_SIZE], position)
        except DataLossError as error:
            raise self._damage(error.message) from error
        index = self._block(handle)
        self._separators = [separator for separator, _ in index]
        self._handles = [self._handle(encoded) for _, encoded in index]

    def get(self, key: bytes) -> bytes | None:
        """Return the value of `key`, or None if it is not in the table."""
        number = bisect_left(self._separators, key)
        if number == len(self._handles):
            return None
        handle = self._handles[number]
        last = self._last  # one look: another thread may replace it
        if last is None or last[0] != handle:
            self._last = last = (handle, dict(self._block(handle)))
        return last[1].get(key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all keys and values in the order of the file."""
        for handle in self._handles:
            yield from self._block(handle)

    def _block(self, handle: Handle) -> list[tuple[bytes, bytes]]:
        """Return the entries of the block at `handle`."""
        content = self._read(handle.offset, handle.size + _TRAILER_SIZE)
        block, kind = content[: handle.size], content[handle.size]
        if self._check:
            stored = crc.unmask(struct.unpack_from("<I", content, handle.size + 1)[0])
            actual = crc.value(content[: handle.size + 1])
            if stored != actual:
                raise self._damage(
                    f"the checksum of the block at byte {handle.offset} is {actual:#010x}, and "
                    f"{stored:#010x} was stored"
                )
        try:
            if kind == _SNAPPY:
                block = _decompress(block)
            elif kind != _NO_COMPRESSION:
                raise DataLossError(f"compression type {kind} is unknown")
            return list(decode_block(block))
        except DataLossError as error:
            raise self._damage(f"in the block at byte {handle.offset}, {error.message}") from error

    def _handle(self, encoded: bytes) -> Handle:
        try:
            return _decode_handle(encoded, 0)[0]
        except DataLossError as error:
            raise self._damage(error.message) from error

    def _read(self, offset: int, size: int) -> bytes:
        # Compared with the file's size first: a wrong size must not allocate gigabytes.
        if offset < 0 or offset + size > self._reader.size:
            raise self._damage(
                f"bytes {offset} to {offset + size} are needed, and it has {self._reader.size}"
            )
        content = bytearray(size)
        self._reader.read_into(offset, memoryview(content))
        return bytes(content)

    def _damage(self, what: str) -> DataLossError:
        return DataLossError(f"{self._reader.path} is not a table, or a damaged one: {what}")


class TableWriter:
    """Writes a table through `write`, a function that takes the next bytes of the file.

    Keys are added in increasing order. The bytes are those that TensorFlow would write.
    """

    def __init__(self, write: Callable[[bytes], object], block_size: int = BLOCK_SIZE) -> None:
        self._write = write
        self._block_size = block_size
        self._offset = 0
        self._block = BlockWriter(_RESTART_INTERVAL)
        self._index = BlockWriter(1)
        self._last_key: bytes | None = None
        # The index entry of a finished block waits for the next key: the shortest separator
        # of the two goes into the index.
        self._pending: Handle | None = None

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry.

        Raises:
            InvalidArgumentError: `key` does not come after the last one.
        """
        if self._last_key is not None:
            if key <= self._last_key:
                raise InvalidArgumentError(f"key {key!r} does not come after {self._last_key!r}")
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
        """Write what is left, the index and the footer."""
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
    """Builds one block."""

    def __init__(self, restart_interval: int) -> None:
        self._interval = restart_interval
        self._content = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last_key = b""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._content

    @property
    def size(self) -> int:
        """Bytes of the block as it would be now."""
        return len(self._content) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        """Append an entry whose key comes after the last one's."""
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
        """Return the block: entries, restart points, their number."""
        count = len(self._restarts)
        return bytes(self._content) + struct.pack(f"<{count + 1}I", *self._restarts, count)


def decode_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block.

    Raises:
        DataLossError: the block is damaged, or its keys are not in order.
    """
    if len(block) < 4:
        raise DataLossError("there is no number of restart points")
    (restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise DataLossError(f"{restarts} restart points do not fit")
    position = 0
    key: bytes | None = None
    while position < end:
        shared, position = read_varint(block, position, end)
        unshared, position = read_varint(block, position, end)
        size, position = read_varint(block, position, end)
        start = position + unshared
        if shared > len(key or b"") or start + size > end:
            raise DataLossError(f"the entry before byte {position} does not fit")
        previous, key = key, (key or b"")[:shared] + block[position:start]
        if previous is not None and key <= previous:
            raise DataLossError(f"key {key!r} does not come after {previous!r}")
        position = start + size
        yield key, block[start:position]


def shortest_separator(start: bytes, limit: bytes) -> bytes:
    """Return a short key that is at least `start` and below `limit` (given `start < limit`)."""
    shared = _common_prefix(start, limit)
    if shared < min(len(start), len(limit)):
        byte = start[shared]
        if byte < 0xFF and byte + 1 < limit[shared]:
            return start[:shared] + bytes([byte + 1])
    return start


def short_successor(key: bytes) -> bytes:
    """Return a short key that is at least `key`."""
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
    """Return a block that snappy compressed; TensorFlow writes none, other programs may."""
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
