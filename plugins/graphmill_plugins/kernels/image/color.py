"""Colour kernels over any array namespace: contrast, hue, saturation, RGB and HSV.

Semantics: tensorflow/core/kernels/image/adjust_contrast_op.cc, adjust_hue_op.cc,
adjust_saturation_op.cc, colorspace_op.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import widen

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_FLOATS = (dtypes.float16, dtypes.float32)


def _check_scalar(name: str, value: Value) -> None:
    if np.ndim(value) != 0:
        raise errors.InvalidArgumentError(f"{name} must be scalar, got {list(np.shape(value))}")


def _check_image(images: Value) -> None:
    if images.ndim < 3:
        raise errors.InvalidArgumentError(
            f"input must be at least 3-D, got shape {list(images.shape)}"
        )


def _check_rgb(images: Value, error: type[errors.OpError] = errors.InvalidArgumentError) -> None:
    if images.ndim < 1:
        raise errors.InvalidArgumentError("input must be at least 1-D, got a scalar")
    if images.shape[-1] != 3:
        raise error(f"input must have 3 channels but instead has {images.shape[-1]}")


def _contrasted(xp: ArrayNamespace, images: Value, factor: Value) -> Value:
    """Scale the distance of float32 pixels to the mean of their image and channel.

    Whole rows are processed together, because NumPy is slow along an axis of three channels.
    """
    *batch, height, width, channels = images.shape
    total = xp.sum(xp.sum(images, axis=-3, keepdims=True), axis=-2, keepdims=True)
    mean = xp.broadcast_to(total / np.float32(height * width), (*batch, 1, width, channels))
    row = mean.reshape(*batch, 1, width * channels)
    rows = images.reshape(*batch, height, width * channels)
    return ((rows - row) * factor + row).reshape(images.shape)


@kernel("AdjustContrastv2", types={"T": _FLOATS})
def adjust_contrast_v2(xp: ArrayNamespace, images: Value, contrast_factor: Value) -> Value:
    """Scale the distance of each pixel to the mean of its image and channel."""
    _check_image(images)
    _check_scalar("contrast_factor", contrast_factor)
    if images.size == 0:
        return images
    return _contrasted(xp, images.astype(np.float32), contrast_factor).astype(images.dtype)


@kernel("AdjustContrast", types={"T": dtypes.REAL})
def adjust_contrast(
    xp: ArrayNamespace,
    images: Value,
    contrast_factor: Value,
    min_value: Value,
    max_value: Value,
) -> Value:
    """Adjust contrast as V2 does, clip to a range, return float32."""
    _check_image(images)
    for name, value in (
        ("contrast_factor", contrast_factor),
        ("min_value", min_value),
        ("max_value", max_value),
    ):
        _check_scalar(name, value)
    if images.size == 0:
        return images.astype(np.float32)
    adjusted = _contrasted(xp, images.astype(np.float32), contrast_factor)
    adjusted = xp.minimum(adjusted, max_value)
    return xp.maximum(adjusted, min_value)  # last, so min_value wins if the range is empty


def _hue(xp: ArrayNamespace, r: Value, g: Value, b: Value, high: Value, span: Value) -> Value:
    """Return the hue in sixths of the circle, [0, 6); 0 for grey."""
    safe = xp.where(span > 0, span, span.dtype.type(1))
    hue = xp.where(
        r == high,
        (g - b) / safe,
        xp.where(
            g == high, (b - r) / safe + safe.dtype.type(2), (r - g) / safe + safe.dtype.type(4)
        ),
    )
    hue = xp.where(span > 0, hue, hue.dtype.type(0))
    return xp.where(hue < 0, hue + hue.dtype.type(6), hue)


@kernel("AdjustHue", types={"T": _FLOATS})
def adjust_hue(xp: ArrayNamespace, images: Value, delta: Value) -> Value:
    """Rotate the hue of RGB images by `delta` of the circle."""
    _check_image(images)
    _check_rgb(images)
    _check_scalar("delta", delta)
    wide = images.astype(np.float32)
    rotated = _rotated(xp, wide, delta)
    if xp is np and np.isfinite(rotated).all():
        return rotated.astype(images.dtype)
    is_finite = xp.isfinite(wide).all(axis=-1, keepdims=True)
    return xp.where(is_finite, rotated, _rotated_by_order(xp, wide, delta)).astype(images.dtype)


def _rotated(xp: ArrayNamespace, images: Value, delta: Value) -> Value:
    """Return float32 images with rotated hues, if all channels are finite."""
    r, g, b = images[..., 0], images[..., 1], images[..., 2]
    high = xp.maximum(xp.maximum(r, g), b)
    low = xp.minimum(xp.minimum(r, g), b)
    span = high - low
    hue = _turned(xp, _hue(xp, r, g, b, high, span), delta)
    return xp.stack([low + share * span for share in _shares(xp, hue)], axis=-1)


def _turned(xp: ArrayNamespace, hue: Value, delta: Value) -> Value:
    """Rotate hues, given in sixths of the circle, by `delta` of the whole circle."""
    hue = hue + delta * np.float32(6)
    return hue - xp.floor(hue / np.float32(6)) * np.float32(6)


def _rotated_by_order(xp: ArrayNamespace, images: Value, delta: Value) -> Value:
    """Return float32 images with rotated hues, also if channels are infinite or NaN.

    As in TensorFlow, comparisons choose which channel is the lowest, the middle and the highest
    one, and NaN compares false.
    """
    r, g, b = images[..., 0], images[..., 1], images[..., 2]
    orders = (  # sector of the circle, condition, lowest, middle and highest channel
        (1, (r < g) & (b < r), b, r, g),
        (3, (r < g) & (b > g), r, g, b),
        (2, r < g, r, b, g),
        (0, b < g, b, g, r),
        (4, b > r, g, r, b),
    )
    sector, low, middle, high = xp.full(r.shape, np.float32(5)), g, b, r
    for number, condition, *channels in reversed(orders):
        sector = xp.where(condition, np.float32(number), sector)
        low, middle, high = (
            xp.where(condition, channel, other)
            for channel, other in zip(channels, (low, middle, high), strict=True)
        )
    share = (middle - low) / (high - low)
    hue = sector + xp.where(sector % 2 == 0, share, np.float32(1) - share)
    hue = _turned(xp, xp.where(high == low, np.float32(0), hue), delta)
    sector = xp.where(xp.isnan(hue), np.float32(6), xp.floor(hue))
    share = hue - xp.floor(hue)
    share = xp.where(sector % 2 == 0, share, np.float32(1) - share)
    middle = low + share * (high - low)
    places = (
        (high, middle, low, low, middle),
        (middle, high, high, middle, low),
        (low, low, middle, high, high),
    )
    channels = []
    for at_sector, last in zip(places, (high, low, middle), strict=True):
        channel = last
        for number, value in enumerate(at_sector):
            channel = xp.where(sector == number, value, channel)
        channels.append(channel)
    return xp.stack(channels, axis=-1)


def _rgb_to_hsv(xp: ArrayNamespace, images: Value) -> tuple[Value, Value, Value]:
    r, g, b = images[..., 0], images[..., 1], images[..., 2]
    one = images.dtype.type
    high = xp.maximum(xp.maximum(r, g), b)
    span = high - xp.minimum(xp.minimum(r, g), b)
    saturation = xp.where(high > 0, span / xp.where(high > 0, high, one(1)), one(0))
    return _hue(xp, r, g, b, high, span) / one(6), saturation, high


def _shares(xp: ArrayNamespace, sixths: Value) -> tuple[Value, Value, Value]:
    """Return the relative intensities of red, green and blue in [0, 1], for a hue in sixths."""
    one = sixths.dtype.type
    return (
        xp.clip(xp.abs(sixths - one(3)) - one(1), one(0), one(1)),
        xp.clip(one(2) - xp.abs(sixths - one(2)), one(0), one(1)),
        xp.clip(one(2) - xp.abs(sixths - one(4)), one(0), one(1)),
    )


def _hsv_to_rgb(xp: ArrayNamespace, hue: Value, saturation: Value, value: Value) -> Value:
    one = value.dtype.type
    grey = one(1) - saturation
    return xp.stack(
        [(grey + saturation * share) * value for share in _shares(xp, hue * one(6))], axis=-1
    )


@kernel("AdjustSaturation", types={"T": _FLOATS})
def adjust_saturation(xp: ArrayNamespace, images: Value, scale: Value) -> Value:
    """Multiply the saturation of RGB images by `scale`."""
    _check_image(images)
    _check_rgb(images)
    _check_scalar("scale", scale)
    hue, saturation, value = _rgb_to_hsv(xp, images.astype(np.float32))
    saturation = xp.clip(saturation * scale, np.float32(0), np.float32(1))
    return _hsv_to_rgb(xp, hue, saturation, value).astype(images.dtype)


@kernel("RGBToHSV", types={"T": dtypes.FLOATING})
def rgb_to_hsv(xp: ArrayNamespace, images: Value) -> Value:
    """Return hue, saturation and value, each in [0, 1], of RGB pixels."""
    _check_rgb(images, errors.FailedPreconditionError)
    wide = images.astype(widen(images.dtype))
    return xp.stack(_rgb_to_hsv(xp, wide), axis=-1).astype(images.dtype)


@kernel("HSVToRGB", types={"T": dtypes.FLOATING})
def hsv_to_rgb(xp: ArrayNamespace, images: Value) -> Value:
    """Return RGB pixels of hue, saturation and value."""
    _check_rgb(images, errors.FailedPreconditionError)
    wide = images.astype(widen(images.dtype))
    return _hsv_to_rgb(xp, wide[..., 0], wide[..., 1], wide[..., 2]).astype(images.dtype)
