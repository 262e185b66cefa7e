"""DrawBoundingBoxes and ExtractGlimpse: draw boxes into images, and cut out windows.

Semantics: tensorflow/core/kernels/image/draw_bounding_box_op.cc, attention_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text

if TYPE_CHECKING:
    from graphmill.spi import Value

_TYPES = {"T": (dtypes.float16, dtypes.float32)}
_COLORS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ],
    np.float32,
)
"""The default colours: yellow, blue, red, lime, purple, olive, maroon, navy, aqua, fuchsia."""


def _draw(image: Any, box: Any, color: Any) -> None:
    """Draw the edges of a box that lie within the image; the box is in units of the image size."""
    height, width = image.shape[:2]
    if not np.isfinite(box).all():
        return
    size = np.array([height - 1, width - 1] * 2, np.float32)
    top, left, bottom, right = (int(edge) for edge in box * size)
    if top > bottom or left > right:
        return
    if top >= height or bottom < 0 or left >= width or right < 0:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            image[row, columns] = color
    for column in (left, right):
        if 0 <= column < width:
            image[rows, column] = color


def _drawn(images: Value, boxes: Value, colors: Any) -> Value:
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(
            "The rank of the images should be 4 and the channel count 1 (grey), 3 (RGB) or 4 "
            f"(RGBA), got shape {shape_text(images.shape)}"
        )
    if boxes.ndim != 3 or boxes.shape[2] != 4:
        raise InvalidArgumentError(
            f"boxes must be (batch, boxes, 4), got shape {shape_text(boxes.shape)}"
        )
    if len(boxes) != len(images):
        raise InvalidArgumentError(
            f"The batch sizes should be the same, got {len(images)} images and {len(boxes)} lists "
            "of boxes"
        )
    out = images.copy()
    depth = images.shape[3]
    for image, own in zip(out, boxes, strict=True):
        for number, box in enumerate(own):
            _draw(image, box, colors[number % len(colors)][:depth])
    return out


def _default_colors(images: Value) -> Any:
    """Return the ten default colours; white for images with one channel."""
    return np.ones_like(_COLORS) if images.shape[-1:] == (1,) else _COLORS


@kernel("DrawBoundingBoxes", types=_TYPES, host=True, expensive=True)
def draw_bounding_boxes(images: Value, boxes: Value) -> Value:
    """Return the images with boxes (top, left, bottom, right) in ten cycling colours."""
    return _drawn(images, boxes, _default_colors(images))


@kernel("DrawBoundingBoxesV2", types=_TYPES, host=True, expensive=True)
def draw_bounding_boxes_v2(images: Value, boxes: Value, colors: Value) -> Value:
    """Return the images with boxes in the given cycling colours, by default ten."""
    depth = images.shape[3] if images.ndim == 4 else 0
    if not colors.size and colors.ndim == 2:
        return _drawn(images, boxes, _default_colors(images))
    if colors.ndim != 2 or colors.shape[1] < depth:
        raise InvalidArgumentError(
            f"colors must be a matrix of at least {depth} columns, got {shape_text(colors.shape)}"
        )
    return _drawn(images, boxes, colors)


class _WindowAlignment(NamedTuple):
    """The convention for window positions: from centre or corner, normalized or in pixels."""

    centered: bool
    normalized: bool
    version: int

    def starts(self, x: Value, size: tuple[int, int], offsets: Value) -> Any:
        """Return the first row and column of each window, truncated towards zero."""
        sides = np.array(x.shape[1:3], np.float32)
        half = np.float32(2)
        starts = offsets * sides if self.normalized else offsets
        is_old = self.version == 1 or (self.centered and self.normalized)
        if self.centered:
            starts = (starts / half if is_old else starts) + sides / half
        if is_old:  # the offset is the centre of the window, not its corner
            starts = starts - np.array(size, np.float32) / half
        return np.trunc(starts).astype(np.int64)


def _noise(image: Any, shape: tuple[int, ...], kind: str) -> Any:
    """Return the noise that fills windows outside of the image."""
    if kind == "zero":
        return np.zeros(shape, np.float32)
    rng = np.random.default_rng()
    if kind == "gaussian":
        return rng.normal(image.mean(), image.std(), shape).astype(np.float32)
    return rng.uniform(image.min(), image.max(), shape).astype(np.float32)


def _glimpse(
    x: Value, size: Value, offsets: Value, alignment: _WindowAlignment, noise: str
) -> Value:
    """Return a window of each image at its offset, with noise outside of the image.

    Raises:
        InvalidArgumentError: the shapes do not match.
    """
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, got {shape_text(x.shape)}")
    if offsets.shape != (len(x), 2):
        raise InvalidArgumentError(
            f"offsets must be ({len(x)}, 2), a position for each image, got "
            f"{shape_text(offsets.shape)}"
        )
    if size.shape != (2,) or size.min() < 0:
        raise InvalidArgumentError(f"size must be two sizes, got {size}")
    height, width = size.tolist()
    shape = (height, width, x.shape[3])
    check_size((len(x), *shape))
    out = np.empty((len(x), *shape), np.float32)
    starts = alignment.starts(x, (height, width), offsets).tolist()
    for image, glimpse, (top, left) in zip(x, out, starts, strict=True):
        rows = range(max(top, 0), min(top + height, x.shape[1]))
        columns = range(max(left, 0), min(left + width, x.shape[2]))
        if len(rows) < height or len(columns) < width:
            glimpse[:] = _noise(image, shape, noise)
        if rows and columns:
            seen = image[rows.start : rows.stop, columns.start : columns.stop]
            row, column = rows.start - top, columns.start - left
            glimpse[row : row + len(rows), column : column + len(columns)] = seen
    return out


def _kind(uniform_noise: bool, noise: str) -> str:
    """Return the kind of noise that the attrs select.

    Raises:
        InvalidArgumentError: the attrs contradict each other, or the noise is unknown.
    """
    if uniform_noise and noise not in ("", "uniform"):
        raise InvalidArgumentError(
            f"The uniform_noise and noise should not be specified at the same time, got {noise!r}"
        )
    kind = "uniform" if uniform_noise else noise
    if kind not in ("uniform", "gaussian", "zero"):
        raise InvalidArgumentError(
            f"The noise could only be uniform, gaussian, or zero, got {noise!r}"
        )
    return kind


@kernel("ExtractGlimpse", host=True, expensive=True, effects=("rng",))
def extract_glimpse(
    x: Value,
    size: Value,
    offsets: Value,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: str,
) -> Value:
    """Return a window of each image around a point, with random noise outside of the image.

    As in TensorFlow, seeds do not affect the noise.
    """
    alignment = _WindowAlignment(centered, normalized, 1)
    return _glimpse(x, size, offsets, alignment, _kind(uniform_noise, noise))


@kernel("ExtractGlimpseV2", host=True, expensive=True, effects=("rng",))
def extract_glimpse_v2(
    x: Value,
    size: Value,
    offsets: Value,
    centered: bool,
    normalized: bool,
    uniform_noise: bool,
    noise: str,
) -> Value:
    """Return a window of each image at a point, centred and normalized by default."""
    alignment = _WindowAlignment(centered, normalized, 2)
    return _glimpse(x, size, offsets, alignment, _kind(uniform_noise, noise))
