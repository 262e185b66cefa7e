"""Resize kernels: ResizeBilinear, ResizeNearestNeighbor, CropAndResize, over any array namespace.

Semantics: tensorflow/core/kernels/image/resize_bilinear_op.cc, resize_nearest_neighbor_op.cc,
crop_and_resize_op.cc. Sizes are static, so NumPy computes all positions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, divided, shape_text, unfused

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_CACHED_SIZES: Final = 64  # pairs of sizes whose positions are cached; pipelines repeat theirs
_MAX_CACHED_SIZE: Final = 4096
"""Size of an output up to which the positions of its pixels are cached; larger ones take memory."""


def output_size(size: Value, images: Value | None = None) -> tuple[int, int]:
    """Return the (height, width) that the size input of a resize holds.

    Args:
        size: the size input.
        images: the resized images, if the output has their batch and channels.

    Raises:
        InvalidArgumentError: it is not a vector of two positive sizes, or images have no channel.
        ResourceExhaustedError: the output is too large.
    """
    array = np.asarray(size)
    if array.shape != (2,):
        raise errors.InvalidArgumentError(
            f"shape_t must be 1-dimensional with two elements, got shape {list(array.shape)}"
        )
    height, width = (int(side) for side in array)
    if height <= 0 or width <= 0:
        raise errors.InvalidArgumentError(
            f"output dimensions must be positive, got {height} x {width}"
        )
    batch, channels = (1, 1) if images is None else (images.shape[0], images.shape[-1])
    if not channels:
        raise errors.InvalidArgumentError("image must have at least one channel")
    check_size((batch, height, width, channels), itemsize=4)
    return height, width


def check_images(images: Value) -> None:
    """Raise InvalidArgumentError unless images are 4-dimensional and have pixels."""
    if images.ndim != 4:
        raise errors.InvalidArgumentError(
            f"input must be 4-dimensional, got shape {list(images.shape)}"
        )
    if images.shape[1] == 0 or images.shape[2] == 0:
        raise errors.InvalidArgumentError("input image must be of non-zero size")


def resize_scale(size: int, new_size: int, align_corners: bool) -> Any:
    """Return the number of input pixels per output pixel, in float32."""
    if align_corners and new_size > 1:
        return np.float32(size - 1) / np.float32(new_size - 1)
    return np.float32(size) / np.float32(new_size)


def positions(size: int, new_size: int, align_corners: bool, offset: float) -> Any:
    """Return the input position of each output pixel, in float32 as TensorFlow computes it."""
    scale = resize_scale(size, new_size, align_corners)
    return (np.arange(new_size, dtype=np.float32) + np.float32(offset)) * scale


def check_centers(align_corners: bool, half_pixel_centers: bool) -> None:
    """Raise InvalidArgumentError if both attrs for the alignment of pixels are set."""
    if align_corners and half_pixel_centers:
        raise errors.InvalidArgumentError(
            "If half_pixel_centers is True, align_corners must be False."
        )


def check_pixels(grads: Value, original: Value) -> None:
    """Raise InvalidArgumentError for images without a pixel."""
    for name, value in (("resized", grads), ("original", original)):
        if 0 in value.shape[1:3]:
            raise errors.InvalidArgumentError(
                f"{name} dimensions must be positive, got shape {list(value.shape)}"
            )


def check_gradient(grads: Value, original: Value) -> None:
    """Raise InvalidArgumentError unless a gradient has the batch and channels of the image."""
    if grads.ndim != 4 or original.ndim != 4:
        raise errors.InvalidArgumentError(
            "input_grad and original_image must be 4-dimensional, got "
            f"{shape_text(grads.shape)} and {shape_text(original.shape)}"
        )
    if (grads.shape[0], grads.shape[3]) != (original.shape[0], original.shape[3]):
        raise errors.InvalidArgumentError(
            "gradient and original image must have the same batch and channels, got "
            f"{shape_text(grads.shape)} and {shape_text(original.shape)}"
        )


def linear_neighbors(
    size: int, new_size: int, align_corners: bool, half: bool
) -> tuple[Any, Any, Any]:
    """Return for each output pixel its two input neighbours and the weight of the second.

    Callers must not change the arrays, which may be those of an earlier call.
    """
    compute = _linear_neighbors if new_size > _MAX_CACHED_SIZE else _cached_linear_neighbors
    return compute(size, new_size, align_corners, half)


def _linear_neighbors(
    size: int, new_size: int, align_corners: bool, half: bool
) -> tuple[Any, Any, Any]:
    position = positions(size, new_size, align_corners, 0.5 if half else 0.0)
    if half:
        position = position - np.float32(0.5)
    floor = np.floor(position)
    upper = np.minimum(np.ceil(position), size - 1).astype(np.intp)
    lower = np.minimum(np.maximum(floor, 0).astype(np.intp), upper)
    return lower, upper, position - floor


_cached_linear_neighbors = lru_cache(_CACHED_SIZES)(_linear_neighbors)


@kernel("ResizeBilinear", types={"T": dtypes.REAL}, static=("size",), expensive=True)
def resize_bilinear(
    xp: ArrayNamespace,
    images: Value,
    size: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Value:
    """Return the images at another size, as float32."""
    check_images(images)
    check_centers(align_corners, half_pixel_centers)
    height, width = output_size(size, images)
    if images.shape[1:3] == (height, width):
        return images.astype(np.float32)
    top, bottom, down = linear_neighbors(images.shape[1], height, align_corners, half_pixel_centers)
    left, right, across = linear_neighbors(
        images.shape[2], width, align_corners, half_pixel_centers
    )
    across, down = across[None, None, :, None], down[None, :, None, None]
    # As in TensorFlow, rows are blended last. If the output has far fewer rows, they are gathered
    # before columns are blended.
    if 2 * height < images.shape[1]:
        upper, lower = (xp.take(images, rows, axis=1) for rows in (top, bottom))
        upper, lower = (
            _interpolated_columns(xp, rows, left, right, across) for rows in (upper, lower)
        )
    else:
        whole = _interpolated_columns(xp, images, left, right, across)
        upper, lower = (xp.take(whole, rows, axis=1) for rows in (top, bottom))
    return upper + (lower - upper) * down


def _interpolated_columns(
    xp: ArrayNamespace, images: Value, left: Any, right: Any, share: Any
) -> Value:
    """Return each output column, interpolated between two columns of the input."""
    images = images.astype(np.float32)
    first, second = (xp.take(images, columns, axis=2) for columns in (left, right))
    return first + (second - first) * share


def nearest_pixels(size: int, new_size: int, align_corners: bool, half: bool) -> Any:
    """Return for each output pixel the input pixel nearest to it; see `linear_neighbors`."""
    compute = _nearest_pixels if new_size > _MAX_CACHED_SIZE else _cached_nearest_pixels
    return compute(size, new_size, align_corners, half)


def _nearest_pixels(size: int, new_size: int, align_corners: bool, half: bool) -> Any:
    position = positions(size, new_size, align_corners, 0.5 if half else 0.0)
    # C++'s roundf rounds halves away from zero, NumPy's `round` to even numbers.
    nearest = np.floor(position + np.float32(0.5)) if align_corners else np.floor(position)
    return np.clip(nearest.astype(np.intp), 0, size - 1)


_cached_nearest_pixels = lru_cache(_CACHED_SIZES)(_nearest_pixels)


@kernel("ResizeNearestNeighbor", types={"T": dtypes.REAL}, static=("size",), expensive=True)
def resize_nearest_neighbor(
    xp: ArrayNamespace,
    images: Value,
    size: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Value:
    """Return the images at another size; each pixel is a copy of the nearest input pixel."""
    check_images(images)
    check_centers(align_corners, half_pixel_centers)
    height, width = output_size(size, images)
    rows = nearest_pixels(images.shape[1], height, align_corners, half_pixel_centers)
    cols = nearest_pixels(images.shape[2], width, align_corners, half_pixel_centers)
    return xp.take(xp.take(images, rows, axis=1), cols, axis=2)


def check_box_shapes(boxes: Value, box_ind: Value) -> None:
    """Raise InvalidArgumentError unless `boxes` is (boxes, 4) and `box_ind` is (boxes,)."""
    if boxes.ndim != 2 or boxes.shape[1] != 4 or box_ind.shape != boxes.shape[:1]:
        raise errors.InvalidArgumentError(
            f"boxes must be [num_boxes, 4] and box_index [num_boxes], got "
            f"{shape_text(boxes.shape)} and {shape_text(box_ind.shape)}"
        )


def check_box_values(xp: ArrayNamespace, boxes: Value, box_ind: Value, num_images: int) -> None:
    """Reject boxes that are not finite or refer to missing images, if values are static."""
    if xp is not np:
        return
    if ((box_ind < 0) | (box_ind >= num_images)).any():
        raise errors.OutOfRangeError("box_index has values outside [0, batch_size)")
    if not np.isfinite(boxes).all():
        raise errors.InvalidArgumentError("boxes contains at least one element that is not finite")


def _check_crops(image: Value, boxes: Value, box_ind: Value, method: str) -> None:
    check_images(image)
    check_box_shapes(boxes, box_ind)
    if method not in ("bilinear", "nearest"):
        raise errors.InvalidArgumentError(f"method must be 'bilinear' or 'nearest', got {method!r}")


def crop_positions(
    xp: ArrayNamespace, start: Value, end: Value, size: int, new_size: int
) -> tuple[Value, Value]:
    """Return positions (boxes, output) on an axis of the image, and a mask of those inside."""
    last = np.float32(size - 1)
    if new_size > 1:
        step = divided(xp, (end - start) * last, new_size - 1)
        steps = xp.asarray(np.arange(new_size, dtype=np.float32))
        moved = unfused(xp, steps[None, :] * step[:, None])
        position = unfused(xp, start * last)[:, None] + moved
    else:
        position = (np.float32(0.5) * (start + end) * last)[:, None]
    return position, (position >= 0) & (position <= last)


def crop_pixels(
    xp: ArrayNamespace, image: Value, box_ind: Value
) -> Callable[[Value, Value], Value]:
    """Return a function that reads pixels of `image` for each box.

    Its arguments are the rows (boxes, crop height) and columns (boxes, crop width); those outside
    of the image are moved to its edge. It returns float32 (boxes, crop height, crop width,
    channels).
    """
    height, width = image.shape[1:3]

    def read(row: Value, column: Value) -> Value:
        rows = xp.clip(row, 0, height - 1).astype(np.int32)[:, :, None]
        columns = xp.clip(column, 0, width - 1).astype(np.int32)[:, None, :]
        return image[box_ind[:, None, None], rows, columns].astype(np.float32)

    return read


@kernel("CropAndResize", types={"T": dtypes.REAL}, static=("crop_size",), expensive=True)
def crop_and_resize(
    xp: ArrayNamespace,
    image: Value,
    boxes: Value,
    box_ind: Value,
    crop_size: Value,
    method: str,
    extrapolation_value: float,
) -> Value:
    """Return a crop of each box (y1, x1, y2, x2 in units of the image), as float32."""
    _check_crops(image, boxes, box_ind, method)
    height, width = output_size(crop_size)
    check_box_values(xp, boxes, box_ind, image.shape[0])
    check_size((len(boxes), height, width, image.shape[3]), "the crops", itemsize=4)
    boxes = boxes.astype(np.float32)
    y, y_inside = crop_positions(xp, boxes[:, 0], boxes[:, 2], image.shape[1], height)
    x, x_inside = crop_positions(xp, boxes[:, 1], boxes[:, 3], image.shape[2], width)
    inside = (y_inside[:, :, None] & x_inside[:, None, :])[..., None]
    pick = crop_pixels(xp, image, box_ind)

    if method == "nearest":
        half = np.float32(0.5)  # C++'s roundf rounds halves away from zero
        crops = pick(xp.floor(y + half), xp.floor(x + half))
    else:
        crops = _bilinear(xp, pick, y, x)
    return xp.where(inside, crops, np.float32(extrapolation_value))


def _bilinear(xp: ArrayNamespace, pick: Any, y: Value, x: Value) -> Value:
    """Return the bilinear mean of the four pixels around each position."""
    top, bottom, left, right = xp.floor(y), xp.ceil(y), xp.floor(x), xp.ceil(x)
    across = (x - left)[:, None, :, None]
    down = (y - top)[:, :, None, None]
    rows = []
    for row in (top, bottom):
        first, second = pick(row, left), pick(row, right)
        rows.append(first + (second - first) * across)
    return rows[0] + (rows[1] - rows[0]) * down
