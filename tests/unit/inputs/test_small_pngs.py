"""Small PNG files that are decoded together have the pixels that Pillow finds in each."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest

from graphmill.inputs.image_files import read_image
from graphmill.inputs.small_pngs import decode_together

Image = pytest.importorskip("PIL.Image")

COLOR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind: bytes, data: bytes) -> bytes:
    """Return a chunk with its checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    height: int, width: int, channels: int, *, seed: int = 0, largest_filter: int = 4
) -> list[bytes]:
    """Return the chunks of a PNG of random bytes, whose rows have random filters."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 256, (height, 1 + width * channels), np.uint8)
    rows[:, 0] = rng.integers(0, largest_filter + 1, height)
    rows[-1, 0] = largest_filter
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    return [
        SIGNATURE,
        chunk(b"IHDR", header),
        chunk(b"IDAT", zlib.compress(rows.tobytes())),
        chunk(b"IEND", b""),
    ]


def together(files: list[bytes], channels: int | None = None) -> dict[int, np.ndarray[Any, Any]]:
    """Return the pixels of the files that are decoded together, by index."""
    return {
        index: image
        for indices, pixels in decode_together(files, channels)
        for index, image in zip(indices, pixels, strict=True)
    }


def saved(pixels: np.ndarray[Any, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", **options)
    return stream.getvalue()


@pytest.mark.parametrize("wanted", [None, 1, 2, 3, 4])
def test_pixels_are_those_of_each_file_alone(wanted: int | None) -> None:
    shapes = [(1, 1), (7, 5), (5, 7), (32, 32), (7, 5)]
    files = [
        b"".join(png(height, width, channels, seed=seed))
        for seed, (height, width) in enumerate(shapes)
        for channels in (1, 2, 3, 4)
    ]
    found = together(files, wanted)
    assert sorted(found) == list(range(len(files)))
    for index, pixels in found.items():
        expected = read_image(files[index], "x.png", channels=wanted)
        np.testing.assert_array_equal(pixels, expected)


def test_images_of_many_bytes_are_decoded_in_several_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("graphmill.inputs.small_pngs._MAX_JOINED_BYTES", 1000)
    files = [b"".join(png(6, 6, 3, seed=seed)) for seed in range(20)]
    assert [len(indices) for indices, _ in decode_together(files)] == [7, 7, 6]
    for index, pixels in together(files).items():
        np.testing.assert_array_equal(pixels, read_image(files[index], "x.png"))


def test_data_in_several_chunks_and_texts_are_read() -> None:
    signature, header, data, end = png(9, 4, 3)
    compressed = data[8:-4]
    halves = [chunk(b"IDAT", compressed[:11]), chunk(b"IDAT", compressed[11:])]
    text = chunk(b"tEXt", b"date\0today")
    gamma = chunk(b"gAMA", struct.pack(">I", 45455))
    file = b"".join([signature, header, gamma, text, *halves, text, end])
    np.testing.assert_array_equal(together([file])[0], read_image(file, "x.png"))


def _other_files() -> dict[str, bytes]:
    signature, header, data, end = png(8, 8, 3)
    whole = b"".join((signature, header, data, end))
    compressed = data[8:-4]
    grey = np.arange(64, dtype=np.uint8).reshape(8, 8)
    palette = io.BytesIO()
    Image.fromarray(grey).convert("P").save(palette, "PNG")
    jpeg = io.BytesIO()
    Image.fromarray(grey).save(jpeg, "JPEG")
    wrong_sum = header[:-1] + bytes([header[-1] ^ 1])
    interlaced = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 1)
    return {
        "nothing": b"",
        "no image": b"hello" * 20,
        "a JPEG": jpeg.getvalue(),
        "a palette": palette.getvalue(),
        "16 bits": saved(grey.astype(np.uint16) * 257),
        "transparency": saved(grey, transparency=3),
        "interlaced": b"".join([signature, chunk(b"IHDR", interlaced), data, end]),
        "large": saved(np.zeros((200, 200, 3), np.uint8)),
        "a wrong checksum of the header": b"".join([signature, wrong_sum, data, end]),
        "a wrong checksum of a text": whole.replace(
            end, chunk(b"tEXt", b"a\0b")[:-1] + b"\x77" + end
        ),
        "a size of gamma that is wrong": b"".join([signature, header, chunk(b"gAMA", b"1"), data]),
        "truncated": whole[: len(whole) // 2],
        "no end": b"".join([signature, header, data]),
        "no data": b"".join([signature, header, end]),
        "damaged data": b"".join([signature, header, chunk(b"IDAT", compressed[:-6]), end]),
        "a wrong checksum of the data": b"".join(
            [signature, header, chunk(b"IDAT", compressed[:-1] + bytes([compressed[-1] ^ 1])), end]
        ),
        "too few rows": b"".join(
            [signature, header, chunk(b"IDAT", zlib.compress(bytes(25 * 7))), end]
        ),
        "too many rows": b"".join(
            [signature, header, chunk(b"IDAT", zlib.compress(bytes(25 * 9))), end]
        ),
        "an unknown filter": b"".join(png(8, 8, 3, largest_filter=5)),
        "data after a text": b"".join(
            [signature, header, chunk(b"IDAT", compressed[:9]), chunk(b"tEXt", b"a\0b"),
             chunk(b"IDAT", compressed[9:]), end]
        ),
    }  # fmt: skip


@pytest.mark.parametrize("kind", _other_files())
def test_other_files_are_left_to_pillow(kind: str) -> None:
    good = b"".join(png(8, 8, 1))
    assert sorted(together([_other_files()[kind], good])) == [1]


def test_data_that_expand_a_lot_are_not_inflated_further_than_the_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signature, header, _, end = png(8, 8, 3)
    file = b"".join([signature, header, chunk(b"IDAT", zlib.compress(bytes(10**7))), end])
    largest = 0
    real = zlib.decompressobj

    class Watched:
        def __init__(self) -> None:
            self._real = real()

        @property
        def eof(self) -> bool:
            return self._real.eof

        def decompress(self, data: bytes, size: int = 0) -> bytes:
            nonlocal largest
            result = self._real.decompress(data, size)
            largest = max(largest, len(result))
            return result

    monkeypatch.setattr("graphmill.inputs.small_pngs.zlib.decompressobj", Watched)
    assert together([file]) == {}
    assert 0 < largest <= 8 * 25 + 1
