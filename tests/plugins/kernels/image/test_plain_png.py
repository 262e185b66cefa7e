"""Plain PNG files are read without Pillow's class of files, with the same results."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from graphmill_plugins.kernels.image import codec
from graphmill_plugins.kernels.image._plain_png import plain_header, plain_image

Image = pytest.importorskip("PIL.Image")

PIXELS = np.random.default_rng(7).integers(0, 256, (9, 13, 4)).astype(np.uint8)
CHANNELS = {"L": 0, "LA": [0, 3], "RGB": [0, 1, 2], "RGBA": [0, 1, 2, 3]}


def file_of(image: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", **options)
    return file.getvalue()


def picture(mode: str) -> Any:
    smooth = np.cumsum(PIXELS, axis=1, dtype=np.uint8)  # rows of several filter types
    return Image.fromarray(np.ascontiguousarray(smooth[..., CHANNELS[mode]]))


def plain(contents: bytes) -> Any:
    header = plain_header(contents)
    return None if header is None else plain_image(Image, contents, *header)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_data(contents: bytes, *parts: bytes) -> bytes:
    """Return a file in which other chunks replace the one with the pixels."""
    start = contents.index(b"IDAT") - 4
    (size,) = struct.unpack_from(">I", contents, start)
    return contents[:start] + b"".join(parts) + contents[start + size + 12 :]


def data_of(contents: bytes) -> bytes:
    start = contents.index(b"IDAT")
    (size,) = struct.unpack_from(">I", contents, start - 4)
    return contents[start + 4 : start + 4 + size]


@pytest.mark.parametrize("mode", CHANNELS)
@pytest.mark.parametrize("channels", [0, 1, 3, 4])
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_pixels_are_those_of_pillow(mode, channels, dtype, monkeypatch):
    contents = np.array(file_of(picture(mode)), dtype=object)
    assert plain(contents.item()) is not None
    decode = codec.decode_png(channels, np.dtype(dtype))
    pixels = decode(contents)
    monkeypatch.setattr(codec, "plain_header", lambda _: None)
    assert np.array_equal(pixels, decode(contents))
    assert pixels.dtype == dtype


def test_several_chunks_of_pixels_are_joined():
    contents = file_of(picture("RGB"))
    data = data_of(contents)
    parts = [chunk(b"IDAT", part) for part in (data[:5], b"", data[5:])]
    assert np.array_equal(plain(with_data(contents, *parts)), picture("RGB"))
    assert plain(with_data(contents, parts[0], chunk(b"tEXt", b"a\0b"), parts[2])) is None
    assert plain(with_data(contents)) is None


@pytest.mark.parametrize(
    "contents",
    [
        file_of(picture("RGB").convert("P")),
        file_of(picture("L").convert("1")),
        file_of(picture("RGB"), transparency=(1, 2, 3)),
        file_of(Image.fromarray(PIXELS[..., 0].astype(np.uint16))),
        file_of(picture("RGB"))[:60],
        b"\x89PNG\r\n\x1a\n",
        b"GIF89a",
    ],
    ids=["palette", "bits", "transparent color", "16 bits", "cut", "signature", "gif"],
)
def test_other_files_are_not_plain(contents):
    assert plain(contents) is None


@pytest.mark.parametrize("change", ["short", "damaged"])
def test_pixels_with_errors_are_left_to_the_class(change):
    contents = file_of(picture("RGB"))
    data = bytearray(zlib.decompress(data_of(contents)))
    packed = zlib.compress(data[:-20]) if change == "short" else b"x" + data_of(contents)
    assert plain(with_data(contents, chunk(b"IDAT", packed))) is None


def test_wrong_checksum_of_an_optional_chunk_is_ignored():
    contents = file_of(picture("RGB"), dpi=(72, 72))
    damaged = bytearray(contents)
    damaged[contents.index(b"pHYs") + 4] ^= 1
    assert np.array_equal(plain(bytes(damaged)), picture("RGB"))
