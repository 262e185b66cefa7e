"""JPEGs are decoded with TensorFlow's libjpeg options; the expected numbers are TensorFlow's."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill import errors
from graphmill_plugins.kernels._strings import string_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided

GREY = (np.arange(64).reshape(8, 8) * 37 % 256).astype(np.uint8)
EDGE = np.zeros((16, 16, 3), np.uint8)
EDGE[:, :8, 0] = EDGE[:, 8:, 2] = 255  # red beside blue


def jpeg(pixels: Any, **options: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    image.fromarray(pixels).save(out, "JPEG", **options)
    return string_scalar(out.getvalue())


@pytest.mark.parametrize(
    ("dct_method", "expected"),
    [
        ("", [0, 37, 70, 110, 149, 179, 223, 7]),
        ("INTEGER_FAST", [0, 37, 70, 110, 149, 179, 223, 7]),
        ("INTEGER_ACCURATE", [0, 38, 72, 112, 150, 179, 222, 5]),
    ],
)
def test_transform_is_the_requested_one(
    call: Callable[..., Any], dct_method: str, expected: list[int]
) -> None:
    pixels = call("DecodeJpeg", jpeg(GREY, quality=90), dct_method=dct_method)
    assert pixels[0, :, 0].tolist() == expected


@pytest.mark.parametrize("op", ["DecodeImage", "DecodePng"])
def test_other_ops_transform_fast(call: Callable[..., Any], op: str) -> None:
    contents = jpeg(GREY, quality=90)
    np.testing.assert_array_equal(call(op, contents), call("DecodeJpeg", contents))


@pytest.mark.parametrize(
    ("fancy_upscaling", "expected", "tolerance"),
    [(True, [254, 254, 201, 50, 0, 0], 1), (False, [254, 254, 254, 0, 0, 0], 0)],
)
def test_subsampled_colours_are_smoothed_on_request(
    call: Callable[..., Any], *, fancy_upscaling: bool, expected: list[int], tolerance: int
) -> None:
    contents = jpeg(EDGE, quality=95, subsampling=2)
    pixels = call("DecodeJpeg", contents, fancy_upscaling=fancy_upscaling)
    np.testing.assert_allclose(pixels[0, 5:11, 0], expected, atol=tolerance, rtol=0)


def test_grey_is_the_stored_luminance(call: Callable[..., Any]) -> None:
    pixels = call("DecodeJpeg", jpeg(EDGE, quality=95, subsampling=2), channels=1)
    assert pixels[0, 5:11, 0].tolist() == [76, 76, 76, 29, 29, 29]


@pytest.mark.parametrize(("ratio", "size"), [(2, (34, 42)), (4, (17, 21)), (8, (9, 11))])
def test_odd_sizes_are_scaled_down_and_rounded_up(
    call: Callable[..., Any], ratio: int, size: tuple[int, int]
) -> None:
    contents = jpeg(np.zeros((67, 83), np.uint8))
    assert call("DecodeJpeg", contents, ratio=ratio).shape == (*size, 1)


def test_fewer_pixels_than_the_ratio_are_refused(call: Callable[..., Any]) -> None:
    with pytest.raises(errors.UnimplementedError, match="5 x 3 pixels at 1/4"):
        call("DecodeJpeg", jpeg(np.zeros((3, 5), np.uint8)), ratio=4)


def test_first_picture_of_several_in_a_jpeg_is_decoded(call: Callable[..., Any]) -> None:
    image = pytest.importorskip("PIL.Image")
    first, second = image.new("RGB", (4, 3), "red"), image.new("RGB", (4, 3), "lime")
    out = io.BytesIO()
    first.save(out, "MPO", save_all=True, append_images=[second])
    pixels = call("DecodeJpeg", string_scalar(out.getvalue()))
    assert pixels.shape == (3, 4, 3)
    assert pixels[0, 0].tolist() == [254, 0, 0]
