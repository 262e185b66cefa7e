"""Read image files as arrays, with Pillow (the extra `image`)."""

from __future__ import annotations

import importlib
import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.distribution import install_command
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.memory_budget import request_memory

if TYPE_CHECKING:
    from types import ModuleType

SUFFIXES = (".png", ".jpg", ".jpeg")
"""Suffixes of the image files that can be read."""

_CLASSES: Final = (
    (b"\x89PNG\r\n\x1a\n", "PngImagePlugin", "PngImageFile"),
    (b"\xff\xd8\xff", "JpegImagePlugin", "JpegImageFile"),
)
"""The first bytes of files of each format, and Pillow's module and class for it."""
_ANY_FILE: Final = 1 << 22
"""An image of at most this many pixels is accepted whatever the size of its file."""
_MAX_PIXELS_PER_BYTE: Final = {"PNG": 1032 * 8, "JPEG": 1024}
"""The maximum number of pixels for each byte of a file, from the format's compression ratio."""
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_PLAIN_MODES = ("L", "LA", "RGB", "RGBA", "I;16")


def read_image(
    data: bytes, name: str, *, channels: int | None = None, size: tuple[int, int] | None = None
) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the image in `data` as uint8 `[height, width, channels]` (uint16 for 16-bit grey).

    Args:
        data: the bytes of a PNG or JPEG file.
        name: how messages refer to the image.
        channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha; None keeps the file's channels.
        size: height and width to scale the image to (bilinear); None keeps the file's size.

    Raises:
        UnimplementedError: pillow is not installed.
        InvalidArgumentError: `data` is not an image, or names more pixels than it can hold.
        ResourceExhaustedError: the pixels are more than the memory budget.
    """
    pil = pillow(name)
    try:
        with _opened(data, name) as image:
            _check_size(image, len(data), name)
            image.load()
            picture = with_channels(image, channels)
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{name} is not an image that can be read: {error}") from error
    if size is not None and picture.size != (size[1], size[0]):
        picture = picture.resize((size[1], size[0]), pil.Resampling.BILINEAR)
    dtype = np.dtype("<u2" if picture.mode == "I;16" else "u1")
    pixels = np.frombuffer(picture.tobytes(), dtype)
    return pixels.reshape(picture.height, picture.width, -1)


def _opened(data: bytes, name: str) -> Any:
    """Open an image by the class of its format; Pillow's `open` would warn of many pixels."""
    for signature, module, class_name in _CLASSES:
        if data.startswith(signature):
            image_class = getattr(importlib.import_module(f"PIL.{module}"), class_name)
            return image_class(io.BytesIO(data))
    raise InvalidArgumentError(
        f"{name} is not an image that can be read: it is neither a PNG nor a JPEG file"
    )


def _check_size(image: Any, length: int, name: str) -> None:
    """Raise if an image of `length` bytes declares more pixels than it holds or memory allows."""
    width, height = image.size
    ratio = _MAX_PIXELS_PER_BYTE[image.format]
    if width * height > max(_ANY_FILE, ratio * length):
        raise InvalidArgumentError(
            f"{name} is damaged: a {image.format} file of {length} bytes cannot hold {width} x "
            f"{height} pixels"
        )
    request_memory(width * height * len(image.getbands()), f"{name} has {width} x {height} pixels")


def pillow(name: str) -> ModuleType:
    """Import Pillow's image module.

    Args:
        name: how a message refers to what is read.

    Raises:
        UnimplementedError: pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError as missing:
        error = UnimplementedError(f"{name}: reading images needs pillow, which is not installed")
        error.add_note(f"try: {install_command('image')}")
        raise error from missing
    return Image


def with_channels(image: Any, channels: int | None) -> Any:
    """Convert an image of Pillow to a number of channels.

    Args:
        image: the image.
        channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha; None for those of the image, and
            RGB for a palette.
    """
    mode = _MODES.get(channels or 0)
    if mode is None:
        mode = image.mode if image.mode in _PLAIN_MODES else "RGB"
        if image.mode in {"1", "P"} and image.info.get("transparency") is None:
            mode = "L" if image.mode == "1" else "RGB"
    if mode == "L" and image.mode.startswith("I;16"):
        return image  # `convert` would clip 16-bit grey
    return image if image.mode == mode else image.convert(mode)
