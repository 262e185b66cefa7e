"""Gradients of resizing and cropping.

Semantics: tensorflow/core/kernels/image/resize_bilinear_op.cc, resize_nearest_neighbor_op.cc,
crop_and_resize_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import accumulator, check_size, shape_text
from graphmill_plugins.kernels.image.resample import resampled
from graphmill_plugins.kernels.image.resize import (
    check_box_shapes,
    check_box_values,
    check_centers,
    check_gradient,
    check_pixels,
    crop_pixels,
    crop_positions,
    linear_neighbors,
    nearest_pixels,
    output_size,
)

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_F = np.float32


def _check_gradients(grads: Value) -> None:
    if grads.ndim != 4:
        raise InvalidArgumentError(
            f"input_grad must be 4-dimensional, got shape {shape_text(grads.shape)}"
        )


def _weights(size: int, new_size: int, align_corners: bool, half: bool) -> Any:
    """Return the matrix (size, output) that sums output pixels into input pixels along an axis."""
    lower, upper, share = linear_neighbors(size, new_size, align_corners, half)
    matrix = np.zeros((size, new_size), np.float32)
    np.add.at(matrix, (lower, np.arange(new_size)), _F(1) - share)
    np.add.at(matrix, (upper, np.arange(new_size)), share)
    return matrix


@kernel("ResizeBilinearGrad", types={"T": dtypes.FLOATING}, expensive=True)
def resize_bilinear_grad(
    xp: ArrayNamespace,
    grads: Value,
    original_image: Value,
    align_corners: bool,
    half_pixel_centers: bool,
) -> Value:
    """Return the gradient of the images of a ResizeBilinear."""
    check_centers(align_corners, half_pixel_centers)
    check_gradient(grads, original_image)
    check_pixels(grads, original_image)
    if not grads.size:
        return xp.zeros(original_image.shape, original_image.dtype)
    if original_image.dtype == np.float64:
        return _in_float64(xp, grads, original_image.shape, align_corners, half_pixel_centers)
    height, width = original_image.shape[1:3]
    down = _weights(height, grads.shape[1], align_corners, half_pixel_centers)
    across = _weights(width, grads.shape[2], align_corners, half_pixel_centers)
    return resampled(xp, grads, down, across).astype(original_image.dtype)


def _in_float64(
    xp: ArrayNamespace, grads: Value, shape: tuple[int, ...], align_corners: bool, half: bool
) -> Value:
    """Return the gradient of float64 images: terms are float32, only sums are float64."""
    top, bottom, down = linear_neighbors(shape[1], grads.shape[1], align_corners, half)
    left, right, across = linear_neighbors(shape[2], grads.shape[2], align_corners, half)
    total: Value = 0
    for rows, by_row in ((top, _F(1) - down), (bottom, down)):
        for columns, by_column in ((left, _F(1) - across), (right, across)):
            parts = grads * by_row[None, :, None, None] * by_column[None, None, :, None]
            indices = (slice(None), rows[:, None], columns[None, :])
            total = total + _added(xp, shape, indices, parts, np.dtype(np.float64))
    return total


def _added(
    xp: ArrayNamespace, shape: tuple[int, ...], indices: Any, values: Value, dtype: np.dtype[Any]
) -> Value:
    """Return zeros with values added at indices; narrow floats are summed in float32."""
    summed = accumulator(dtype)
    if xp is np:
        out = np.zeros(shape, summed)
        np.add.at(out, indices, values.astype(summed))
        return out.astype(dtype)
    return xp.zeros(shape, summed).at[indices].add(values.astype(summed)).astype(dtype)


@kernel("ResizeNearestNeighborGrad", types={"T": dtypes.REAL}, static=("size",), expensive=True)
def resize_nearest_neighbor_grad(
    xp: ArrayNamespace, grads: Value, size: Value, align_corners: bool, half_pixel_centers: bool
) -> Value:
    """Return the gradient of the images of a ResizeNearestNeighbor."""
    _check_gradients(grads)
    check_centers(align_corners, half_pixel_centers)
    height, width = output_size(size)
    shape = (grads.shape[0], height, width, grads.shape[3])
    check_size(shape, itemsize=grads.dtype.itemsize)
    if not grads.size:
        return xp.zeros(shape, grads.dtype)
    rows = nearest_pixels(height, grads.shape[1], align_corners, half_pixel_centers)
    columns = nearest_pixels(width, grads.shape[2], align_corners, half_pixel_centers)
    if xp is np and grads.dtype == np.float32 and np.isfinite(grads).all():
        down, across = (
            (np.arange(size)[:, None] == pixels).astype(np.float32)
            for size, pixels in ((height, rows), (width, columns))
        )
        return resampled(xp, grads, down, across)
    indices = (slice(None), rows[:, None], columns[None, :])
    return _added(xp, shape, indices, grads, grads.dtype)


def _check_crops(
    xp: ArrayNamespace, grads: Value, boxes: Value, box_ind: Value, num_images: int
) -> None:
    _check_gradients(grads)
    if not grads.shape[1] or not grads.shape[2]:
        raise InvalidArgumentError("grads dimensions must be positive")
    check_box_shapes(boxes, box_ind)
    if len(boxes) != grads.shape[0]:
        raise InvalidArgumentError(
            f"boxes and grads have incompatible shapes: {len(boxes)} and {grads.shape[0]}"
        )
    check_box_values(xp, boxes, box_ind, num_images)


@kernel(
    "CropAndResizeGradImage",
    types={"T": (dtypes.float16, dtypes.float32, dtypes.float64)},
    static=("image_size",),
    expensive=True,
)
def crop_and_resize_grad_image(
    xp: ArrayNamespace,
    grads: Value,
    boxes: Value,
    box_ind: Value,
    image_size: Value,
    T: np.dtype[Any],
    method: str,
) -> Value:
    """Return the gradient of the image of a CropAndResize."""
    if image_size.shape != (4,):
        raise InvalidArgumentError(
            f"image_size must have 4 elements, got shape {shape_text(image_size.shape)}"
        )
    shape = tuple(image_size.tolist())
    if shape[1] <= 0 or shape[2] <= 0 or min(shape) < 0:
        raise InvalidArgumentError(f"image dimensions must be positive, got {list(shape)}")
    check_size(shape, itemsize=4)
    if grads.ndim == 4 and grads.shape[3] != shape[3]:
        raise InvalidArgumentError("image_size and grads are incompatible")
    _check_crops(xp, grads, boxes, box_ind, shape[0])
    y, y_inside = crop_positions(xp, boxes[:, 0], boxes[:, 2], shape[1], grads.shape[1])
    x, x_inside = crop_positions(xp, boxes[:, 1], boxes[:, 3], shape[2], grads.shape[2])
    inside = (y_inside[:, :, None] & x_inside[:, None, :])[..., None]
    grads = xp.where(inside, grads, _F(0))
    summed = accumulator(T)
    total: Value = 0
    for row, column, by_row, by_column in _corner_weights(xp, y, x, method):
        rows = xp.clip(row, 0, shape[1] - 1).astype(np.int32)[:, :, None]
        columns = xp.clip(column, 0, shape[2] - 1).astype(np.int32)[:, None, :]
        indices = (box_ind[:, None, None], rows, columns)
        shares = grads * _along(by_row, 1) * _along(by_column, 2)
        total = total + _added(xp, shape, indices, shares, summed)
    return total.astype(T)


def _corner_weights(
    xp: ArrayNamespace, y: Value, x: Value, method: str
) -> list[tuple[Value, Value, Value, Value]]:
    """Return row, column and both weights of each pixel that a crop's positions read."""
    if method == "nearest":
        half = _F(0.5)
        return [(xp.floor(y + half), xp.floor(x + half), _F(1), _F(1))]
    top, left = xp.floor(y), xp.floor(x)
    down, across = y - top, x - left
    return [
        (row, column, by_row, by_column)
        for row, by_row in ((top, _F(1) - down), (xp.ceil(y), down))
        for column, by_column in ((left, _F(1) - across), (xp.ceil(x), across))
    ]


def _along(weights: Value, axis: int) -> Value:
    """Return weights (boxes, pixels) along an axis of crops (boxes, rows, columns, channels)."""
    if not np.ndim(weights):
        return weights
    return weights[:, :, None, None] if axis == 1 else weights[:, None, :, None]


@kernel("CropAndResizeGradBoxes", types={"T": dtypes.REAL}, expensive=True)
def crop_and_resize_grad_boxes(
    xp: ArrayNamespace, grads: Value, image: Value, boxes: Value, box_ind: Value
) -> Value:
    """Return the gradient of the boxes of a CropAndResize."""
    if image.ndim != 4 or not image.shape[1] or not image.shape[2]:
        raise InvalidArgumentError(
            f"input image must be 4-D and not empty, got shape {shape_text(image.shape)}"
        )
    if grads.ndim == 4 and image.shape[3] != grads.shape[3]:
        raise InvalidArgumentError("image, grads depth differ")
    _check_crops(xp, grads, boxes, box_ind, image.shape[0])
    height, width = image.shape[1:3]
    y, y_inside = crop_positions(xp, boxes[:, 0], boxes[:, 2], height, grads.shape[1])
    x, x_inside = crop_positions(xp, boxes[:, 1], boxes[:, 3], width, grads.shape[2])
    inside = (y_inside[:, :, None] & x_inside[:, None, :])[..., None]
    pick = crop_pixels(xp, image, box_ind)
    top, bottom, left, right = xp.floor(y), xp.ceil(y), xp.floor(x), xp.ceil(x)
    down, across = (y - top)[:, :, None, None], (x - left)[:, None, :, None]
    corners = [[pick(row, column) for column in (left, right)] for row in (top, bottom)]
    (top_left, top_right), (bottom_left, bottom_right) = corners
    by_y = (1 - across) * (bottom_left - top_left) + across * (bottom_right - top_right)
    by_x = (1 - down) * (top_right - top_left) + down * (bottom_right - bottom_left)
    by_y = xp.where(inside, by_y * grads, _F(0)).sum(axis=(2, 3))
    by_x = xp.where(inside, by_x * grads, _F(0)).sum(axis=(1, 3))
    first_y, last_y = _ends(height, grads.shape[1])
    first_x, last_x = _ends(width, grads.shape[2])
    return xp.stack(
        [
            (by_y * first_y).sum(axis=1),
            (by_x * first_x).sum(axis=1),
            (by_y * last_y).sum(axis=1),
            (by_x * last_x).sum(axis=1),
        ],
        axis=1,
    )


def _ends(size: int, new_size: int) -> tuple[Any, Any]:
    """Return the derivatives of crop positions with respect to both edges of the box."""
    whole = _F(size - 1)
    if new_size == 1:
        half = np.full(1, _F(0.5) * whole, np.float32)
        return half, half
    step = whole / _F(new_size - 1)
    last = np.arange(new_size, dtype=np.float32) * step
    return whole - last, last
