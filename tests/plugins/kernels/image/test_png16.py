"""16-bit PNG files round-trip; malformed ones and decompression bombs are refused."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphmill
from graphmill import errors, ops
from graphmill_plugins.kernels.image import _png16

pytestmark = pytest.mark.divided

Image = pytest.importorskip("PIL.Image")
PIXELS = np.random.default_rng(3).integers(0, 1 << 16, (5, 6, 3)).astype(np.uint16)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_of(rows, width, height, color_type=2, interlace=0):
    header = struct.pack(">IIBBBBB", width, height, 16, color_type, 0, 0, interlace)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def filtered(pixels, kinds):
    """Return rows filtered one by one, as the PNG standard defines it."""
    rows = pixels.astype(">u2").view(np.uint8).reshape(len(pixels), -1).astype(int)
    size, out, above = 2 * pixels.shape[2], b"", np.zeros(rows.shape[1], int)
    for kind, row in zip(kinds, rows, strict=True):
        left = np.concatenate([np.zeros(size, int), row[:-size]])
        corner = np.concatenate([np.zeros(size, int), above[:-size]])
        guess = left + above - corner
        far = [abs(guess - one) for one in (left, above, corner)]
        nearest = np.where(far[1] <= far[2], above, corner)
        paeth = np.where((far[0] <= far[1]) & (far[0] <= far[2]), left, nearest)
        by = (0, left, above, (left + above) // 2, paeth)[kind]
        out += bytes([kind]) + bytes(((row - by) % 256).tolist())
        above = row
    return out


def decoded(contents):
    return _png16.decode(contents, _png16.header_of(contents))


@given(st.lists(st.integers(0, 4), min_size=5, max_size=5))
def test_rows_of_all_filters_are_decoded(kinds) -> None:
    contents = png_of(filtered(PIXELS, kinds), 6, 5)
    np.testing.assert_array_equal(decoded(contents), PIXELS)


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_write_and_read_round_trip(channels) -> None:
    pixels = np.resize(PIXELS, (4, 7, channels))
    np.testing.assert_array_equal(decoded(_png16.encode(pixels, 6)), pixels)


@given(st.integers(33, 200), st.binary(max_size=8))
def test_malformed_files_are_refused_or_read(place, junk) -> None:
    contents = bytearray(_png16.encode(PIXELS, 6))
    contents[place : place + len(junk)] = junk
    try:
        found = decoded(bytes(contents))
    except errors.InvalidArgumentError:
        return
    assert found.shape == PIXELS.shape


def run(function, value):
    graph = graphmill.Graph()
    with graph.as_default():
        given_ = graph.placeholder("string", (), name="contents")
        result = function(given_)
    with graphmill.Session(graph=graph) as session:
        return session.run(result, {given_: value})


def test_an_interlaced_file_is_not_read_as_16_bits() -> None:
    contents = png_of(filtered(PIXELS, [0] * 5), 6, 5, interlace=1)
    with pytest.raises(errors.UnimplementedError, match="interlaced"):
        run(lambda c: ops.image.decode_png(c, dtype="uint16"), contents)


@pytest.mark.parametrize("width", [10_000, 30_000])
@pytest.mark.parametrize(
    ("form", "place", "size"),
    [("PNG", 16, ">II"), ("BMP", 18, "<II"), ("GIF", 6, "<HH")],
)
def test_image_with_forged_size_is_refused(form, place, size, width) -> None:
    file = io.BytesIO()
    Image.fromarray(np.zeros((3, 3, 3), np.uint8)).save(file, form)
    contents = bytearray(file.getvalue())
    struct.pack_into(size, contents, place, width, width)
    if form == "PNG":
        struct.pack_into(">I", contents, 29, zlib.crc32(contents[12:29]))
    with pytest.raises(errors.InvalidArgumentError, match="too large"):
        run(ops.image.decode_image, bytes(contents))
