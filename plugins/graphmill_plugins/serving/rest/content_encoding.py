"""Decompress the bodies of requests."""

from __future__ import annotations

import zlib
from typing import Final

_GZIP: Final = 31  # zlib's window bits for a gzip header and trailer


def decompress_gzip(body: bytes, limit: int) -> bytes:
    """Return the content of a gzip body; at most one byte more than `limit` is decompressed.

    Args:
        body: one gzip member.
        limit: the most bytes that the content may have. A result with more is cut off: the caller
            refuses it.

    Raises:
        ValueError: the body is not gzip, or is damaged.
    """
    decoder = zlib.decompressobj(_GZIP)
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error as error:
        raise ValueError(f"the body is not gzip: {error}") from error
    if len(content) <= limit and (not decoder.eof or decoder.unused_data):
        raise ValueError("the gzip body is truncated, or other data follows it")
    return content
