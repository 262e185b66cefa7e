"""`check_chunks`: check that a PNG is complete and undamaged; Pillow accepts truncated files.

As in libpng, every chunk up to the end must be there, and the critical ones must have their
checksum. The format: https://www.w3.org/TR/png-3/.
"""

from __future__ import annotations

import struct
import zlib

from graphmill.errors import InvalidArgumentError

_SIGNATURE_SIZE = 8
_HEAD_SIZE = 8
_CHECKSUM_SIZE = 4
_IS_ANCILLARY = 0x20


def check_chunks(contents: bytes) -> None:
    """Check the chunks of a PNG.

    Raises:
        InvalidArgumentError: as `chunks_of`.
    """
    chunks_of(contents)


def chunks_of(contents: bytes) -> list[tuple[bytes, memoryview]]:
    """Return the type and data of each chunk of a PNG up to its end.

    Raises:
        InvalidArgumentError: the file ends within a chunk or before the last one, or a critical
            chunk differs from its checksum.
    """
    view = memoryview(contents)
    chunks = []
    start = _SIGNATURE_SIZE
    while start + _HEAD_SIZE <= len(view):
        length, kind = struct.unpack_from(">I4s", view, start)
        end = start + _HEAD_SIZE + length
        if end + _CHECKSUM_SIZE > len(view):
            break
        (stored,) = struct.unpack_from(">I", view, end)
        if not kind[0] & _IS_ANCILLARY and zlib.crc32(view[start + 4 : end]) != stored:
            raise InvalidArgumentError(
                f"Invalid image data: the PNG chunk {kind!r} at byte {start} differs from its "
                "checksum"
            )
        chunks.append((kind, view[start + _HEAD_SIZE : end]))
        if kind == b"IEND":
            return chunks
        start = end + _CHECKSUM_SIZE
    raise InvalidArgumentError(
        f"Invalid image data: the PNG of {len(contents)} bytes is truncated at byte {start}"
    )
