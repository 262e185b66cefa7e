"""PNG files with 16 bits per channel in colour, which Pillow does not support.

The format: https://www.w3.org/TR/png-3/. Interlaced files are not supported.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill.errors import InvalidArgumentError, UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_CHANNELS: Final = {0: 1, 2: 3, 4: 2, 6: 4}  # by the color type of a header
_COLOR_TYPE: Final = {channels: color_type for color_type, channels in _CHANNELS.items()}
_HEADER: Final = struct.Struct(">IIBBBBB")


class Header(NamedTuple):
    """The contents of a PNG's first chunk."""

    width: int
    height: int
    bits: int
    color_type: int
    compression: int
    filtering: int
    interlace: int

    @property
    def channels(self) -> int:
        """The number of channels; 0 for palette images."""
        return _CHANNELS.get(self.color_type, 0)


def header_of(contents: bytes) -> Header | None:
    """Return the header of a PNG; None for other files."""
    if contents[:8] != _SIGNATURE or contents[12:16] != b"IHDR" or len(contents) < 29:
        return None
    return Header(*_HEADER.unpack_from(contents, 16))


def decode(contents: bytes, header: Header) -> Any:
    """Return the pixels of a 16-bit PNG: (height, width, channels), uint16.

    Raises:
        InvalidArgumentError: the data is cut off or malformed.
        UnimplementedError: it is interlaced.
    """
    if header.interlace:
        raise UnimplementedError("interlaced PNG files of 16-bit colour are not read as 16 bits")
    size = 2 * header.channels
    row = 1 + header.width * size
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(b"".join(_data(contents)), row * header.height)
    except zlib.error as error:
        raise InvalidArgumentError(f"Invalid PNG data: {error}") from None
    if len(raw) < row * header.height:
        raise InvalidArgumentError("Invalid PNG data: the data is truncated")
    rows = np.frombuffer(raw, np.uint8).reshape(header.height, row)
    filters = rows[:, 0]
    if filters.max() > 4:
        raise InvalidArgumentError(f"Invalid PNG data: unknown filter {filters.max()}")
    samples = _unfiltered(filters, rows[:, 1:].reshape(header.height, header.width, size))
    return (
        samples.reshape(header.height, -1)
        .view(">u2")
        .astype(np.uint16)
        .reshape(header.height, header.width, header.channels)
    )


def _data(contents: bytes) -> Iterator[bytes]:
    """Yield the compressed data of all IDAT chunks."""
    offset = 8
    while offset + 8 <= len(contents):
        length, kind = struct.unpack_from(">I4s", contents, offset)
        if kind == b"IDAT":
            yield contents[offset + 8 : offset + 8 + length]
        offset += 12 + length


def _unfiltered(filters: Any, data: Any) -> Any:
    """Undo the filters of all rows at once, along the diagonals.

    A pixel depends on those to its left, above, and above to the left, so those of one diagonal do
    not depend on each other.
    """
    height, width, size = data.shape
    if not filters.any():
        return np.ascontiguousarray(data)
    out = np.zeros((height + 1, width + 1, size), np.int16)
    for diagonal in range(height + width - 1):
        rows = np.arange(max(0, diagonal - width + 1), min(height, diagonal + 1))
        columns = diagonal - rows
        left, up, corner = out[rows + 1, columns], out[rows, columns + 1], out[rows, columns]
        guesses = [np.zeros_like(left), left, up, (left + up) >> 1, _paeth(left, up, corner)]
        guess = np.choose(filters[rows][:, None], guesses)
        out[rows + 1, columns + 1] = (data[rows, columns] + guess) & 255
    return np.ascontiguousarray(out[1:, 1:].astype(np.uint8))


def _paeth(left: Any, up: Any, corner: Any) -> Any:
    """Return the neighbour that is nearest to left + up - corner; ties go to the first one."""
    by_left, by_up = np.abs(up - corner), np.abs(left - corner)
    by_corner = np.abs(left + up - 2 * corner)
    nearest = np.where(by_up <= by_corner, up, corner)
    return np.where((by_left <= by_up) & (by_left <= by_corner), left, nearest)


def encode(pixels: Any, level: int) -> bytes:
    """Return pixels (height, width, channels), uint16, as a PNG.

    Args:
        level: the compression level, 0 to 9.
    """
    height, width, channels = pixels.shape
    rows = pixels.astype(">u2").reshape(height, -1).view(np.uint8)
    raw = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1).tobytes()
    header = _HEADER.pack(width, height, 16, _COLOR_TYPE[channels], 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(raw, level)), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
