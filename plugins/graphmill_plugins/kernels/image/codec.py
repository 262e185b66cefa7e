"""Decode image files with Pillow, which is imported on first use.

Semantics: tensorflow/core/kernels/image/decode_image_op.cc. Pillow and TensorFlow both use
libjpeg-turbo; `_jpeg` chooses its options.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import install_command, kernel
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.image import _png16
from graphmill_plugins.kernels.image._jpeg import JpegOptions, scale_down, use_options
from graphmill_plugins.kernels.image._plain_png import plain_header, plain_image
from graphmill_plugins.kernels.image._png_chunks import check_chunks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.spi import Value

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_MAX_PIXELS = 1 << 29  # TensorFlow refuses larger images too.
_DEFAULTS = JpegOptions()
_METHODS = ("", "INTEGER_FAST", "INTEGER_ACCURATE")
_CLASSES = {"BMP": "Bmp", "GIF": "Gif", "JPEG": "Jpeg", "PNG": "Png", "WEBP": "WebP"}
_ANY_FILE = 1 << 22  # up to so many pixels, files of any length are accepted
_MAX_PIXELS_PER_BYTE = {"BMP": 64, "GIF": 2800, "JPEG": 1024, "PNG": 1032 * 8, "WEBP": 1 << 23}
"""The maximum number of pixels for each byte of a file, from the format's compression ratio."""


def pillow() -> Any:
    """Import Pillow's image module.

    Raises:
        UnimplementedError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise errors.UnimplementedError(
            "image files are read with Pillow, which is not installed; "
            f"run: {install_command('image')}"
        ) from None
    return Image


def _open(contents: bytes, formats: tuple[str, ...]) -> Any:
    header = plain_header(contents) if "PNG" in formats else None
    if header is not None:
        _check_size("PNG", header[1], len(contents))
        image = plain_image(pillow(), contents, *header)
        if image is not None:
            return image
    with _refusing(pillow()):
        image = _first_opened(contents, formats)
    _check_size(image.format, image.size, len(contents))
    if image.format == "PNG":
        check_chunks(contents)
    return image


def _first_opened(contents: bytes, formats: tuple[str, ...]) -> Any:
    """Open an image by the class of the first format that accepts it.

    Pillow's `open` warns of many pixels, which `_check_size` bounds, and takes a JPEG with previews
    for an image of another format.
    """
    for name in formats:
        image_class = _class_for(name)
        try:
            return image_class(io.BytesIO(contents))
        except (OSError, ValueError, SyntaxError):
            continue
    raise errors.InvalidArgumentError(
        f"Unknown image file format. One of {', '.join(formats)} required."
    )


@cache
def _class_for(name: str) -> Any:
    """Return Pillow's class of the images of a format."""
    module = importlib.import_module(f"PIL.{_CLASSES[name]}ImagePlugin")
    return getattr(module, f"{_CLASSES[name]}ImageFile")


def _check_size(image_format: str, size: tuple[int, int], length: int) -> None:
    """Raise InvalidArgumentError for more pixels than a file of `length` bytes can hold."""
    width, height = size
    limit = min(_MAX_PIXELS, max(_ANY_FILE, _MAX_PIXELS_PER_BYTE[image_format] * length))
    if width * height > limit:
        raise errors.InvalidArgumentError(
            f"the image is too large: {width} x {height}; a {image_format} of {length} bytes has "
            f"at most {limit} pixels"
        )
    check_size((height, width, 4), "the image")


@contextlib.contextmanager
def _refusing(image_module: Any) -> Iterator[None]:
    """Convert Pillow's errors for malformed data and decompression bombs to ours."""
    try:
        yield
    except errors.OpError:
        raise
    except (OSError, ValueError, SyntaxError, EOFError, IndexError, struct.error) as error:
        raise errors.InvalidArgumentError(f"Invalid image data: {error}") from None
    except image_module.DecompressionBombError as error:
        raise errors.InvalidArgumentError(f"the image is too large: {error}") from None


def _own_channels(image: Any, contents: bytes = b"") -> int:
    header = _png16.header_of(contents)
    if header is not None and header.bits == 16 and header.channels:
        return header.channels
    if image.mode in ("1", "L", "I", "I;16", "I;16B", "F"):
        return 1
    if image.mode == "LA":
        return 2
    if image.mode in ("RGBA", "PA") or (image.mode == "P" and "transparency" in image.info):
        return 4
    return 3


def _pixels(image: Any, channels: int, options: JpegOptions = _DEFAULTS) -> Any:
    """Return (height, width, channels) bytes of the image's current frame."""
    with _refusing(pillow()):
        use_options(image, channels, options)
        if image.mode.startswith("I"):
            # Scale 16-bit grey to 8 bits here, because Pillow would clip it.
            return _spread((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8), channels)
        if channels == 1 and image.format == "PNG" and image.mode not in ("1", "L", "LA"):
            return _grey(np.asarray(image.convert("RGB")))
        image.load()  # which may change the mode
        mode = _MODES[channels]
        array = np.asarray(image if image.mode == mode else image.convert(mode))
    return array.reshape(*array.shape[:2], channels)


def _grey(pixels: Any, half: int = 0) -> Any:
    """Convert RGB to grey with libpng's weights in 32768ths; `half` is added for rounding."""
    red, green, blue = (pixels[..., channel].astype(np.uint32) for channel in range(3))
    grey = (9797 * red + 19234 * green + 3737 * blue + half) >> 15
    return grey.astype(pixels.dtype)[..., None]


def _spread(grey: Any, channels: int) -> Any:
    """Repeat grey pixels in the given number of channels; a fourth channel is opaque alpha."""
    pixels = np.repeat(grey[..., None], channels, axis=2)
    if channels == 4:
        pixels[..., 3] = np.iinfo(grey.dtype).max
    return pixels


def _pixels_16(image: Any, channels: int, contents: bytes) -> Any:
    if image.mode.startswith("I"):
        with _refusing(pillow()):
            grey = np.asarray(image).astype(np.uint16)
        return _spread(grey, channels)
    header = _png16.header_of(contents)
    if header is None or header.bits != 16 or not header.channels:
        return _pixels(image, channels).astype(np.uint16) * np.uint16(257)
    pixels = _png16.decode(contents, header)
    if channels == header.channels:
        return pixels
    if header.channels == 2:  # grey and alpha
        spread = _spread(pixels[..., 0], channels)
        if channels == 4:
            spread[..., 3] = pixels[..., 1]
        return spread
    if channels == 1:
        return _grey(pixels, half=1 << 14)
    if channels > header.channels:
        opaque = np.full((*pixels.shape[:2], 1), np.iinfo(np.uint16).max, np.uint16)
        return np.concatenate([pixels, opaque], axis=2)
    return pixels[..., :channels]


def _png_pixels(image: Any, channels: int, contents: bytes, dtype: np.dtype[Any]) -> Any:
    """Return pixels as uint8 or uint16; as in libpng, grey conversion precedes 16-to-8-bit."""
    if dtype == np.uint16:
        return _pixels_16(image, channels, contents)
    header = _png16.header_of(contents)
    if header is not None and header.bits == 16 and header.channels > 2 and channels == 1:
        return (_pixels_16(image, channels, contents) >> 8).astype(np.uint8)
    return _pixels(image, channels)


def _cast(pixels: Any, dtype: np.dtype[Any]) -> Any:
    if dtype == np.uint8:
        return pixels
    if dtype == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(256)  # not 257, which would give 65535
    if dtype == np.float32:
        return pixels.astype(np.float32) / np.float32(255)
    raise errors.InvalidArgumentError(f"dtype must be uint8, uint16 or float32, got {dtype}")


def _check_channels(channels: int, allowed: tuple[int, ...]) -> None:
    if channels not in allowed:
        raise errors.InvalidArgumentError(
            f"channels must be one of {', '.join(map(str, allowed))}, got {channels}"
        )


def _scalar_contents(contents: Value) -> bytes:
    if contents.ndim != 0:
        raise errors.InvalidArgumentError(
            f"contents must be scalar but got shape {list(contents.shape)}"
        )
    item: bytes = contents.item()
    if not item:
        raise errors.InvalidArgumentError("Input is empty.")
    return item


def _check_single(image: Any) -> None:
    count = _frame_count(image) if image.format == "GIF" else 1
    if count > 1:
        raise errors.InvalidArgumentError(
            f"Got {count} frames, but animated gifs can only be decoded by DecodeGif or DecodeImage"
        )


def _frame_count(image: Any) -> int:
    with _refusing(pillow()):
        count: int = getattr(image, "n_frames", 1)
    return count


def _frames(image: Any, channels: int, length: int) -> Any:
    """Return (frames, height, width, channels) of an animation."""
    frames = []
    count = _frame_count(image)
    width, height = image.size
    check_size((count, height, width, channels), "the animation")
    with _refusing(pillow()):
        for number in range(count):
            image.seek(number)
            _check_size(image.format, image.size, length)
            frames.append(_pixels(image, channels))
    return np.stack(frames)


@kernel("DecodePng", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_png(channels: int, dtype: np.dtype[Any]) -> Callable[[Value], Value]:
    """Return the pixels of a PNG; a JPEG or a GIF of one frame is accepted too."""
    _check_channels(channels, (0, 1, 3, 4))

    def run(contents: Value) -> Value:
        data = _scalar_contents(contents)
        image = _open(data, ("PNG", "JPEG", "GIF", "BMP"))
        _check_single(image)
        num_channels = channels or _own_channels(image, data)
        return _png_pixels(image, num_channels, data, dtype)

    return run


@kernel("DecodeJpeg", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_jpeg(
    channels: int, ratio: int, fancy_upscaling: bool, dct_method: str
) -> Callable[[Value], Value]:
    """Return the pixels of a JPEG, at 1 / `ratio` of its size; a PNG is accepted too."""
    _check_channels(channels, (0, 1, 3))
    if ratio not in (1, 2, 4, 8):
        raise errors.InvalidArgumentError(f"ratio must be 1, 2, 4, or 8, got {ratio}")
    if dct_method not in _METHODS:
        raise errors.InvalidArgumentError(f"dct_method must be one of {_METHODS}: {dct_method!r}")
    options = JpegOptions(dct_method, fancy_upscaling)

    def run(contents: Value) -> Value:
        image = _open(_scalar_contents(contents), ("JPEG", "PNG", "GIF", "BMP"))
        _check_single(image)
        num_channels = channels or _own_channels(image)
        if ratio > 1:
            scale_down(image, ratio)
        return _pixels(image, num_channels, options)

    return run


@kernel("DecodeAndCropJpeg", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_and_crop_jpeg(
    channels: int, ratio: int, fancy_upscaling: bool, dct_method: str
) -> Callable[[Value, Value], Value]:
    """Return a window (top, left, height, width) of the pixels of a JPEG."""
    decode = decode_jpeg(channels, ratio, fancy_upscaling, dct_method)

    def run(contents: Value, crop_window: Value) -> Value:
        if crop_window.shape != (4,):
            raise errors.InvalidArgumentError(
                f"crop_window must have four elements, got shape {list(crop_window.shape)}"
            )
        _open(_scalar_contents(contents), ("JPEG",))
        top, left, height, width = crop_window.tolist()
        pixels = decode(contents)
        is_inside = top + height <= pixels.shape[0] and left + width <= pixels.shape[1]
        if min(top, left) < 0 or min(height, width) <= 0 or not is_inside:
            raise errors.InvalidArgumentError(
                f"Invalid JPEG data or crop window: {crop_window.tolist()} of an image of "
                f"{pixels.shape[0]} x {pixels.shape[1]}"
            )
        return pixels[top : top + height, left : left + width]

    return run


@kernel("DecodeBmp", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_bmp(channels: int) -> Callable[[Value], Value]:
    """Return the pixels of a BMP."""
    _check_channels(channels, (0, 1, 3, 4))

    def run(contents: Value) -> Value:
        image = _open(_scalar_contents(contents), ("BMP",))
        _check_format(image, channels)
        return _pixels(image, channels or _own_channels(image))

    return run


@kernel("DecodeGif", host=True, dynamic_shape=True, expensive=True)
def decode_gif(contents: Value) -> Value:
    """Return all frames of a GIF as RGB: (frames, height, width, 3)."""
    data = _scalar_contents(contents)
    return _frames(_open(data, ("GIF", "PNG", "JPEG")), 3, len(data))


@kernel("DecodeWebP", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_webp(channels: int) -> Callable[[Value], Value]:
    """Return all frames of a WebP file: (frames, height, width, channels), also of a still image.

    Raises:
        InvalidArgumentError: the file is damaged, or has another number of channels than `channels`
            (0 for any).
    """
    _check_channels(channels, (0, 3, 4))

    def run(contents: Value) -> Value:
        data = _scalar_contents(contents)
        image = _open(data, ("WEBP",))
        actual = _own_channels(image)
        if channels not in (0, actual):
            raise errors.InvalidArgumentError(
                f"the image has {actual} channels, but {channels} were requested"
            )
        return _frames(image, actual, len(data))

    return run


@kernel("DecodeImage", make=True, host=True, dynamic_shape=True, expensive=True)
def decode_image(
    channels: int, dtype: np.dtype[Any], expand_animations: bool
) -> Callable[[Value], Value]:
    """Return the pixels of a BMP, GIF, JPEG or PNG; with `expand_animations`, all frames."""
    _check_channels(channels, (0, 1, 3, 4))

    def run(contents: Value) -> Value:
        data = _scalar_contents(contents)
        image = _open(data, ("JPEG", "PNG", "GIF", "BMP"))
        _check_format(image, channels)
        if image.format == "GIF":
            frames = _frames(image, channels or 3, len(data))
            return _cast(frames if expand_animations else frames[0], dtype)
        num_channels = channels or _own_channels(image, data)
        if image.format == "PNG" and dtype != np.float32:
            return _png_pixels(image, num_channels, data, dtype)
        return _cast(_pixels(image, num_channels), dtype)

    return run


def _check_format(image: Any, channels: int) -> None:
    """Check that a format can be decoded to `channels` channels; 0 means those of the file."""
    allowed = {"BMP": (0, 3, 4), "GIF": (0, 3)}.get(image.format, (channels,))
    if image.format == "BMP" and image.mode == "L":
        allowed = (0, 1)
    if channels not in allowed:
        raise errors.InvalidArgumentError(
            f"channels must be {' or '.join(map(str, allowed))} for {image.format}, got {channels}"
        )


@kernel("ExtractJpegShape", make=True, host=True, expensive=True)
def extract_jpeg_shape(output_type: np.dtype[Any]) -> Callable[[Value], Value]:
    """Return (height, width, channels) of a JPEG without decoding it."""

    def run(contents: Value) -> Value:
        image = _open(_scalar_contents(contents), ("JPEG",))
        width, height = image.size
        return np.array([height, width, len(image.getbands())], output_type)

    return run
