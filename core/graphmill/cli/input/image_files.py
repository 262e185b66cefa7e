"""Read image files as arrays, with pillow (the extra `image`)."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.distribution import install_command
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError

if TYPE_CHECKING:
    from types import ModuleType

SUFFIXES = (".png", ".jpg", ".jpeg")
"""Suffixes of the image files that can be read."""

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
        InvalidArgumentError: `data` is not an image.
        ResourceExhaustedError: the image has more pixels than pillow considers safe to decode.
    """
    pil = _pillow(name)
    try:
        with pil.open(io.BytesIO(data), formats=("PNG", "JPEG")) as image:
            image.load()
            picture = _with_channels(image, channels)
    except pil.DecompressionBombError as error:
        raise ResourceExhaustedError(f"{name} has too many pixels: {error}") from error
    except pil.UnidentifiedImageError as error:
        raise InvalidArgumentError(
            f"{name} is not an image that can be read: it is neither a PNG nor a JPEG file"
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidArgumentError(f"{name} is not an image that can be read: {error}") from error
    if size is not None and picture.size != (size[1], size[0]):
        picture = picture.resize((size[1], size[0]), pil.Resampling.BILINEAR)
    dtype = np.dtype("<u2" if picture.mode == "I;16" else "u1")
    pixels = np.frombuffer(picture.tobytes(), dtype)
    return pixels.reshape(picture.height, picture.width, -1)


def _pillow(name: str) -> ModuleType:
    try:
        from PIL import Image
    except ImportError as missing:
        error = UnimplementedError(f"{name}: reading images needs pillow, which is not installed")
        error.add_note(f"try: {install_command('image')}")
        raise error from missing
    return Image


def _with_channels(image: Any, channels: int | None) -> Any:
    mode = _MODES.get(channels or 0)
    if mode is None:
        mode = image.mode if image.mode in _PLAIN_MODES else "RGB"
        if image.mode in {"1", "P"} and image.info.get("transparency") is None:
            mode = "L" if image.mode == "1" else "RGB"
    if mode == "L" and image.mode.startswith("I;16"):
        return image  # `convert` would clip 16-bit grey
    return image if image.mode == mode else image.convert(mode)
