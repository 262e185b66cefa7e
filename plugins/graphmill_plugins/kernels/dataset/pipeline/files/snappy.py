"""The Snappy format: raw blocks, and files as TensorFlow writes them.

A file is a sequence of blocks, each after its compressed length in 4 bytes, big-endian
(tensorflow/core/lib/io/snappy/snappy_outputbuffer.cc). Blocks are written without compression:
finding repeated bytes in Python would take longer than writing them.
"""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Final

from graphmill.errors import DataLossError
from graphmill.spi.files import read_exactly
from graphmill.spi.protos import read_varint, write_varint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

_LENGTH: Final = struct.Struct(">I")
_LARGEST_LITERAL: Final = 1 << 16
"""The longest literal whose length takes two bytes; TensorFlow reads blocks up to 256 KiB."""
_LITERAL_WITH_TWO_LENGTH_BYTES: Final = bytes([61 << 2])


def blocks(content: bytes) -> Iterator[bytes]:
    """Yield the blocks in which a file stores some content."""
    for start in range(0, len(content), _LARGEST_LITERAL):
        block = compressed(content[start : start + _LARGEST_LITERAL])
        yield _LENGTH.pack(len(block)) + block


def compressed(content: bytes) -> bytes:
    """Return a raw block that contains some bytes as they are."""
    parts = [write_varint(len(content))]
    for start in range(0, len(content), _LARGEST_LITERAL):
        literal = content[start : start + _LARGEST_LITERAL]
        parts += [_LITERAL_WITH_TWO_LENGTH_BYTES, struct.pack("<H", len(literal) - 1), literal]
    return b"".join(parts)


class SnappyStream(io.RawIOBase):
    """The decompressed content of a file."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._left = b""

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Fill a buffer with the next bytes; return their number, 0 at the end.

        Raises:
            DataLossError: the file is corrupted or truncated.
        """
        while not self._left:
            header = self._raw.read(_LENGTH.size)
            if not header:
                return 0
            size = _LENGTH.unpack(header)[0] if len(header) == _LENGTH.size else 0
            block = read_exactly(self._raw, size)
            if not block or len(block) < size:
                raise DataLossError("a file compressed with Snappy ends within a block")
            self._left = decompressed(block)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self._raw.close()
        super().close()


def decompressed(block: bytes) -> bytes:
    """Return the content of a raw block.

    Raises:
        DataLossError: the block is corrupted.
    """
    size, position = read_varint(block, 0, len(block))
    out = bytearray()
    while position < len(block):
        tag = block[position]
        if tag & 3:
            offset, length, position = _copy(block, position)
            _repeat(out, offset, length)
        else:
            start, length = _literal(block, position)
            position = start + length
            out += block[start:position]
    if len(out) != size:
        raise DataLossError(f"a Snappy block has {len(out)} bytes, its header says {size}")
    return bytes(out)


def _literal(block: bytes, position: int) -> tuple[int, int]:
    """Return the position and the length of the bytes of a literal."""
    length, start = (block[position] >> 2) + 1, position + 1
    extra = length - 60
    if extra > 0:
        length = int.from_bytes(block[start : start + extra], "little") + 1
        start += extra
    if start + length > len(block):
        raise DataLossError("a Snappy block ends within a literal")
    return start, length


def _copy(block: bytes, position: int) -> tuple[int, int, int]:
    """Return the offset and the length of a copy, and the position after it."""
    tag = block[position]
    width = (0, 1, 2, 4)[tag & 3]
    end = position + 1 + width
    if end > len(block):
        raise DataLossError("a Snappy block ends within a copy")
    offset = int.from_bytes(block[position + 1 : end], "little")
    if width == 1:
        return (tag >> 5) << 8 | offset, (tag >> 2 & 7) + 4, end
    return offset, (tag >> 2) + 1, end


def _repeat(out: bytearray, offset: int, length: int) -> None:
    """Append bytes that are `offset` bytes before the end; they may overlap the appended bytes."""
    if not 0 < offset <= len(out):
        raise DataLossError(f"a Snappy block copies from {offset} bytes back, but has {len(out)}")
    start = len(out) - offset
    period = out[start : start + length]
    while len(period) < length:
        period += period[: length - len(period)]
    out += period
