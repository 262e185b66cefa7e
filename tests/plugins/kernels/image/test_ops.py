"""Images: files, resizing, non-maximum suppression."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels._strings import string_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided

RNG = np.random.default_rng(2)


def file_of(pixels: Any, form: str, **options: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.fromarray(pixels).save(out, form, **options)
    return string_scalar(out.getvalue())


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_round_trips(call: Callable[..., Any], channels: int) -> None:
    pytest.importorskip("PIL")
    pixels = RNG.integers(0, 256, (5, 7, channels)).astype(np.uint8)
    encoded = call("EncodePng", pixels)
    np.testing.assert_array_equal(call("DecodePng", encoded), pixels)
    np.testing.assert_array_equal(call("DecodeImage", encoded), pixels)


def test_pixels_that_have_the_wanted_channels_are_not_converted(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = RNG.integers(0, 256, (5, 7, 3)).astype(np.uint8)
    encoded = file_of(pixels, "PNG")
    monkeypatch.delattr("PIL.Image.Image.convert")
    np.testing.assert_array_equal(call("DecodePng", encoded, channels=3), pixels)


def test_16_bits_are_scaled_and_cut(call: Callable[..., Any]) -> None:
    grey = RNG.integers(0, 65536, (4, 5)).astype(np.uint16)
    encoded = file_of(grey, "PNG")
    np.testing.assert_array_equal(call("DecodePng", encoded, dtype="uint16")[..., 0], grey)
    np.testing.assert_array_equal(call("DecodePng", encoded)[..., 0], grey >> 8)


def test_floats_are_between_zero_and_one(call: Callable[..., Any]) -> None:
    encoded = file_of(np.full((2, 2, 3), 255, np.uint8), "PNG")
    got = call("DecodeImage", encoded, dtype="float32")
    assert got.dtype == np.float32
    assert got.tolist() == np.ones((2, 2, 3)).tolist()


def test_a_jpeg_is_close(call: Callable[..., Any]) -> None:
    slope = np.add.outer(np.arange(16) * 5, np.arange(24) * 4).astype(np.uint8)
    encoded = file_of(slope, "JPEG", quality=95)
    got = call("DecodeJpeg", encoded)
    assert got.shape == (16, 24, 1)
    assert np.abs(got[..., 0].astype(int) - slope).max() <= 6
    assert call("DecodeJpeg", encoded, ratio=2).shape == (8, 12, 1)
    assert call("ExtractJpegShape", encoded).tolist() == [16, 24, 1]


@pytest.mark.parametrize("content", [b"", b"abc", b"\x89PNG\r\n\x1a\n"])
def test_invalid_images_are_refused(call: Callable[..., Any], content: bytes) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(errors.InvalidArgumentError):
        call("DecodeImage", string_scalar(content))


def test_a_truncated_image_is_refused(call: Callable[..., Any]) -> None:
    encoded = file_of(RNG.integers(0, 256, (30, 30, 3)).astype(np.uint8), "PNG").item()
    with pytest.raises(errors.InvalidArgumentError, match="Invalid image data"):
        call("DecodePng", string_scalar(encoded[: len(encoded) // 2]))


def test_error_without_pillow_names_the_extra(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(errors.UnimplementedError, match=r"run: pip install 'graphmill\S*\[image\]"):
        call("DecodePng", string_scalar(b"abc"))


def test_halving_takes_every_other_pixel(call: Callable[..., Any]) -> None:
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    size = np.array([2, 2], np.int32)
    np.testing.assert_array_equal(call("ResizeNearestNeighbor", x, size), x[:, ::2, ::2])
    np.testing.assert_array_equal(call("ResizeBilinear", x, size), x[:, ::2, ::2])
    centred = call("ResizeBilinear", x, size, half_pixel_centers=True)
    np.testing.assert_array_equal(centred.ravel(), [2.5, 4.5, 10.5, 12.5])


def test_corners_are_preserved(call: Callable[..., Any]) -> None:
    x = RNG.standard_normal((1, 5, 7, 2)).astype(np.float32)
    got = call("ResizeBilinear", x, np.array([9, 3], np.int32), align_corners=True)
    for row in (0, -1):
        for col in (0, -1):
            np.testing.assert_allclose(got[0, row, col], x[0, row, col], rtol=1e-6)


def test_the_best_of_overlapping_boxes_stays(call: Callable[..., Any]) -> None:
    boxes = np.array([[0, 0, 2, 2], [0, 0.1, 2, 2], [5, 5, 6, 6]], np.float32)
    scores = np.array([0.5, 0.9, 0.4], np.float32)
    got = call("NonMaxSuppressionV2", boxes, scores, np.int32(3), np.float32(0.5))
    assert got.tolist() == [1, 2]


def test_hues_wrap_around(call: Callable[..., Any]) -> None:
    pixels = RNG.uniform(0, 1, (6, 3)).astype(np.float32)
    back = call("HSVToRGB", call("RGBToHSV", pixels))
    np.testing.assert_allclose(back, pixels, atol=1e-6)
    image = pixels.reshape(2, 3, 3)
    np.testing.assert_allclose(call("AdjustHue", image, np.float32(1)), image, atol=1e-5)
