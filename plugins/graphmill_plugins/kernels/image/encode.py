"""Encode image files with Pillow, which is imported on first use.

Semantics: tensorflow/core/kernels/image/encode_png_op.cc, encode_jpeg_op.cc and
tensorflow/core/lib/jpeg/jpeg_mem.cc. Pillow and TensorFlow both use libpng and libjpeg-turbo; the
bytes of a PNG depend on the version of zlib, too.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._strings import map_strings, string_scalar
from graphmill_plugins.kernels.image import _png16
from graphmill_plugins.kernels.image.codec import pillow

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_UNITS: Final = {"in": 1, "cm": 2}
_DEFAULT_DENSITY: Final = ("in", 300, 300)
_UNIT_OFFSET: Final = 13
"""Offset of the density unit in a JPEG with a JFIF header; both densities, of 16 bits, follow."""
_HEADER_SIZE: Final = 20
_XMP: Final = b"http://ns.adobe.com/xap/1.0/\0"
_UINT16_MASK: Final = (1 << 16) - 1
_MAX_SEGMENT_BYTES: Final = (1 << 16) - 3


def _encode(pixels: Any, form: str, **options: Any) -> bytes:
    image_module = pillow()
    channels = pixels.shape[2]
    array = pixels[..., 0] if channels == 1 else pixels
    if pixels.dtype == np.uint16:
        if channels != 1:
            return _png16.encode(pixels, options["compress_level"])
        image = image_module.fromarray(array.astype(np.uint16))
    else:
        image = image_module.fromarray(np.ascontiguousarray(array))
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def _encode_jpeg(
    pixels: Any, density: tuple[str, int, int], xmp: bytes = b"", **options: Any
) -> Value:
    encoded = _encode(pixels, "JPEG", **options)
    unit, x, y = density
    densities = bytes([_UNITS[unit]]) + x.to_bytes(2, "big") + y.to_bytes(2, "big")
    head = (
        encoded[:_UNIT_OFFSET] + densities + encoded[_UNIT_OFFSET + len(densities) : _HEADER_SIZE]
    )
    return string_scalar(head + _xmp_segment(xmp) + encoded[_HEADER_SIZE:])


def _xmp_segment(xmp: bytes) -> bytes:
    if not xmp:
        return b""
    content = _XMP + xmp
    if len(content) > _MAX_SEGMENT_BYTES:
        raise errors.InvalidArgumentError(
            f"xmp_metadata has {len(xmp)} bytes; a JPEG holds {_MAX_SEGMENT_BYTES - len(_XMP)}"
        )
    return b"\xff\xe1" + (len(content) + 2).to_bytes(2, "big") + content


def _check_image(image: Value, allowed: tuple[int, ...]) -> None:
    if image.ndim < 3 or image.shape[-1] not in allowed:
        raise errors.InvalidArgumentError(
            f"image must be (..., height, width, channels) with channels among "
            f"{list(allowed)}, got shape {list(image.shape)}"
        )


def _check_single_image(image: Value, allowed: tuple[int, ...]) -> None:
    if image.ndim != 3:
        raise errors.InvalidArgumentError(
            f"image must be 3-dimensional, got shape {list(image.shape)}"
        )
    _check_image(image, allowed)


@kernel("EncodePng", host=True, expensive=True)
def encode_png(xp: ArrayNamespace, image: Value, compression: int) -> Value:
    """Return the image, or each of a batch of images, as PNG."""
    _check_image(image, (1, 2, 3, 4))
    if not -1 <= compression <= 9:
        raise errors.InvalidArgumentError(f"compression should be in [-1,9], got {compression}")
    level = 6 if compression < 0 else compression
    images = xp.asarray(image).reshape(-1, *image.shape[-3:])
    encoded = [_encode(single, "PNG", compress_level=level) for single in images]
    if image.ndim == 3:
        return string_scalar(encoded[0])
    indices = np.arange(len(encoded)).reshape(image.shape[:-3])
    return map_strings(lambda index: encoded[int(index)], indices)


@kernel("EncodeJpeg", make=True, host=True, expensive=True)
def encode_jpeg(
    format: str,  # noqa: A002 - the attr's own name
    quality: int,
    progressive: bool,
    optimize_size: bool,
    chroma_downsampling: bool,
    density_unit: str,
    x_density: int,
    y_density: int,
    xmp_metadata: str,
) -> Callable[[Value], Value]:
    """Return the image as JPEG."""
    allowed = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}
    if format not in allowed:
        raise errors.InvalidArgumentError(f"format must be '', grayscale or rgb, got {format!r}")
    density = (density_unit, x_density & _UINT16_MASK, y_density & _UINT16_MASK)
    options = {
        "quality": quality,
        "progressive": progressive,
        "optimize": optimize_size,
        "subsampling": "4:2:0" if chroma_downsampling else "4:4:4",
    }
    xmp = xmp_metadata.encode() if isinstance(xmp_metadata, str) else xmp_metadata

    def run(image: Value) -> Value:
        _check_single_image(image, allowed[format])
        return _encode_jpeg(np.asarray(image), density, xmp, **options)

    return run


@kernel("EncodeJpegVariableQuality", host=True, expensive=True)
def encode_jpeg_variable_quality(image: Value, quality: Value) -> Value:
    """Return the image as JPEG; the quality is an input."""
    _check_single_image(image, (1, 3))
    if np.ndim(quality):
        raise errors.InvalidArgumentError(
            f"quality must be scalar, got shape {list(np.shape(quality))}"
        )
    if not 0 <= quality <= 100:
        raise errors.InvalidArgumentError(f"quality must be in [0,100], got {int(quality)}")
    return _encode_jpeg(
        np.asarray(image), _DEFAULT_DENSITY, quality=int(quality), subsampling="4:2:0"
    )
