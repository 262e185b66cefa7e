"""Images become arrays of the model's channels, size, scale and rank."""

from __future__ import annotations

import struct
import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphmill import dtypes, errors
from graphmill.distribution import install_command
from graphmill.inputs import image_files
from graphmill.inputs.image_input import ImageOptions, image_array, image_arrays
from graphmill.inputs.input_spec import InputSpec
from graphmill.inputs.input_values import load
from graphmill.inputs.source import Source
from graphmill.memory_budget import with_memory_limit

Image = pytest.importorskip("PIL.Image")

GREY = InputSpec("image", dtypes.float32, (-1, 8, 8, 1))


@pytest.fixture
def grey(tmp_path: Path) -> Source:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8) * 4
    Image.fromarray(pixels).save(tmp_path / "grey.png")
    return Source("image", "file", str(tmp_path / "grey.png"))


def test_floats_are_scaled_to_one_and_a_batch_dimension_added(grey: Source) -> None:
    array = load(grey, GREY)
    assert array.shape == (1, 8, 8, 1)
    assert array.dtype == np.float32
    np.testing.assert_allclose(array.reshape(-1), np.arange(64) * 4 / 255, rtol=1e-6)


@pytest.mark.parametrize(
    ("pixels", "low", "high"), [("", 0, 1), ("0..1", 0, 1), ("0..255", 0, 255), ("-1..1", -1, 1)]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_pixels_have_the_requested_range(
    tmp_path: Path, dtype: Any, pixels: str, low: float, high: float
) -> None:
    image = np.zeros((8, 8), dtype)
    image[0, 0] = np.iinfo(dtype).max
    Image.fromarray(image).save(tmp_path / "x.png")
    notes: list[str] = []
    options = ImageOptions(pixels=pixels, on_note=notes.append)
    array = load(Source("image", "file", str(tmp_path / "x.png")), GREY, options)
    assert (array.min(), array[0, 0, 0, 0]) == pytest.approx((low, high))
    assert array.dtype == np.float32
    (line,) = notes
    assert f"x.png are scaled to {pixels or '0..1'}" in line
    assert ("--pixels" in line) is (not pixels)


def test_pixels_of_integers_cannot_be_fractions(grey: Source) -> None:
    spec = InputSpec("image", dtypes.uint8, (-1, 8, 8, 1))
    notes: list[str] = []
    load(grey, spec, ImageOptions(pixels="0..255", on_note=notes.append))
    assert notes == []
    with pytest.raises(errors.InvalidArgumentError, match=r"cannot have pixels in -1\.\.1"):
        load(grey, spec, ImageOptions(pixels="-1..1"))


def test_integers_keep_the_grey_levels(grey: Source) -> None:
    array = load(grey, InputSpec("image", dtypes.uint8, (-1, 8, 8, 1)))
    assert array.reshape(-1).tolist() == [4 * value for value in range(64)]


@pytest.mark.parametrize(
    ("layout", "shape"),
    [
        ((-1, 8, 8, 3), (1, 8, 8, 3)),
        ((-1, -1, -1, -1), (1, 8, 8, 1)),
        ((8, 8, 1), (8, 8, 1)),
        ((-1, 8, 8), (1, 8, 8)),
        ((8, 8), (8, 8)),
        (None, (1, 8, 8, 1)),
    ],
)
def test_image_takes_the_layout_of_its_input(
    grey: Source, layout: tuple[int, ...] | None, shape: tuple[int, ...]
) -> None:
    assert load(grey, InputSpec("image", dtypes.float32, layout)).shape == shape


def test_wrong_size_is_reported_with_both_sizes(tmp_path: Path) -> None:
    Image.new("L", (28, 20)).save(tmp_path / "big.png")
    source = Source("image", "file", str(tmp_path / "big.png"))
    with pytest.raises(errors.InvalidArgumentError, match=r"28 x 20 .* images of 8 x 8") as caught:
        load(source, GREY)
    assert "--resize" in caught.value.__notes__[0]


def test_resize_scales_the_picture(tmp_path: Path) -> None:
    Image.new("L", (28, 20), 255).save(tmp_path / "big.png")
    array = load(
        Source("image", "file", str(tmp_path / "big.png")), GREY, ImageOptions(resize=True)
    )
    np.testing.assert_array_equal(array, np.ones((1, 8, 8, 1), np.float32))


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA"])
def test_every_mode_becomes_colour(tmp_path: Path, mode: str) -> None:
    Image.new("RGB", (8, 8), (255, 255, 255)).convert(mode).save(tmp_path / "x.png")
    array = load(
        Source("image", "file", str(tmp_path / "x.png")),
        InputSpec("i", dtypes.uint8, (-1, 8, 8, 3)),
    )
    assert array.min() == 255


def test_sixteen_bit_grey_keeps_its_range(tmp_path: Path) -> None:
    Image.fromarray(np.full((8, 8), 65535, np.uint16)).save(tmp_path / "x.png")
    array = load(Source("image", "file", str(tmp_path / "x.png")), GREY)
    np.testing.assert_array_equal(array, np.ones((1, 8, 8, 1), np.float32))


def test_jpeg_is_read(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), (255, 255, 255)).save(tmp_path / "x.jpg")
    array = load(
        Source("image", "file", str(tmp_path / "x.jpg")),
        InputSpec("image", dtypes.float32, (-1, 8, 8, 3)),
    )
    assert array.min() > 0.98


def test_string_input_takes_the_encoded_file(grey: Source) -> None:
    array = load(grey, InputSpec("image", dtypes.string, (-1,)))
    assert array.tolist() == [Path(grey.text).read_bytes()]


@pytest.mark.parametrize("content", [b"", b"not a picture", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"])
def test_invalid_picture_is_a_typed_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(errors.InvalidArgumentError, match="not an image"):
        load(Source("image", "file", str(tmp_path / "x.png")), GREY)


def test_truncated_picture_is_a_typed_error(grey: Source) -> None:
    path = Path(grey.text)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(errors.InvalidArgumentError):
        load(grey, GREY)


def test_missing_pillow_error_names_the_package(
    grey: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(errors.UnimplementedError, match="pillow") as caught:
        load(grey, GREY)
    assert install_command("image") in caught.value.__notes__[0]


def test_images_of_many_pixels_are_read_without_a_warning(
    grey: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)  # of 64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load(grey, GREY).shape == (1, 8, 8, 1)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20)
    assert load(grey, GREY).shape == (1, 8, 8, 1)


def test_a_file_that_names_more_pixels_than_it_holds_is_refused(grey: Source) -> None:
    file = Path(grey.text)
    data = bytearray(file.read_bytes())
    data[16:24] = struct.pack(">II", 1 << 20, 1 << 20)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    file.write_bytes(data)
    with pytest.raises(errors.InvalidArgumentError, match="cannot hold 1048576 x 1048576 pixels"):
        load(grey, GREY)


def test_pixels_beyond_the_memory_budget_are_refused(
    grey: Source,
) -> None:
    data = Path(grey.text).read_bytes()
    read = with_memory_limit(50, image_files.read_image)
    with pytest.raises(errors.ResourceExhaustedError, match="8 x 8 pixels"):
        read(data, "grey.png")
    assert image_files.read_image(data, "grey.png").shape == (8, 8, 1)


def test_a_batch_of_images_equals_single_images(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = []
    for number, shape in enumerate([(8, 8), (8, 8, 3), (8, 8), (9, 8), (8, 8, 4)]):
        path = tmp_path / f"{number}.png"
        Image.fromarray(rng.integers(0, 256, shape, np.uint8)).save(path)
        images.append((Source("image", "file", str(path)), path.read_bytes()))
    images.append((Source("image", "file", "damaged.png"), images[0][1][:50]))
    options = ImageOptions(pixels="-1..1")
    found = image_arrays(images, GREY, options)
    assert [isinstance(array, errors.OpError) for array in found] == [
        False, False, False, True, False, True,
    ]  # fmt: skip
    for (source, data), array in zip(images, found, strict=True):
        if isinstance(array, errors.OpError):
            with pytest.raises(type(array), match=Path(source.text).name):
                image_array(source, data, GREY, options)
        else:
            np.testing.assert_array_equal(array, image_array(source, data, GREY, options))


def test_small_pngs_that_need_no_resizing_are_decoded_in_one_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / f"{number}.png" for number in range(5)]
    for path in paths:
        Image.fromarray(np.full((8, 8), 7, np.uint8)).save(path)
    images = [(Source("image", "file", str(path)), path.read_bytes()) for path in paths]

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("an image was read alone")

    monkeypatch.setattr("graphmill.inputs.image_input.read_image", never)
    arrays = image_arrays(images, GREY, ImageOptions(resize=True))
    assert [not isinstance(array, errors.OpError) and array.shape for array in arrays] == [
        (1, 8, 8, 1)
    ] * 5
