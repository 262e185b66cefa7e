"""PNG files that are cut off or damaged are refused."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops

pytest.importorskip("PIL")

DECODERS = {
    "png": ops.image.decode_png,
    "image": ops.image.decode_image,
    "jpeg": ops.image.decode_jpeg,
}


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(extra: bytes = b"") -> bytes:
    header = struct.pack(">IIBBBBB", 4, 3, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + bytes(12) for _ in range(3)))
    chunks = [chunk(b"IHDR", header), extra, chunk(b"IDAT", pixels), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def decoded(decoder: str, contents: bytes) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        pixels = DECODERS[decoder](graph.constant(np.array(contents, dtype=object)))
    with graphmill.Session(graph=graph) as session:
        return session.run(pixels)


@pytest.mark.parametrize("decoder", DECODERS)
def test_every_cut_is_refused(decoder: str) -> None:
    whole = png()
    for size in range(len(whole)):
        with pytest.raises(errors.InvalidArgumentError):
            decoded(decoder, whole[:size])
    assert decoded(decoder, whole).shape == (3, 4, 3)


def test_wrong_checksum_of_a_critical_chunk_is_refused() -> None:
    for position in (-1, -13):  # of the chunks IEND and IDAT
        damaged = bytearray(png())
        damaged[position] ^= 1
        with pytest.raises(errors.InvalidArgumentError, match="differs from its checksum"):
            decoded("png", bytes(damaged))


def test_bytes_after_the_end_are_ignored() -> None:
    assert decoded("png", png() + b"more").shape == (3, 4, 3)
