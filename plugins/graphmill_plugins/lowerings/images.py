"""Checks for crops of images and for values that XLA would compute differently."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, errors
from graphmill_plugins.lowerings.indices import in_range
from graphmill_plugins.lowerings.magnitudes import are_finite, are_within

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

MAX_MAGNITUDE: Final = 1e6
"""Maximum box coordinate and hue; rounding makes results for larger values arbitrary."""


def pixels_are_finite(xp: ArrayNamespace, images: Value, *_: Value) -> Value:
    """Check that no pixel is NaN or infinite in float32, because matrix products spread it."""
    if images.dtype.kind in "iu":
        return np.True_
    return are_finite(xp, images.astype(np.float32))


def crops_exist(
    xp: ArrayNamespace, image: Value, boxes: Value, box_ind: Value, crop_size: Value
) -> Value:
    """Check that each box refers to an image in the batch."""
    del boxes, crop_size
    return in_range(xp, box_ind, 0, image.shape[0])


def boxes_are_finite(
    xp: ArrayNamespace, images: Value, boxes: Value, box_ind: Value, size: Value
) -> Value:
    """Check that box coordinates are finite."""
    del images, box_ind, size
    return are_finite(xp, boxes)


def gradient_boxes_are_finite(
    xp: ArrayNamespace, grads: Value, image: Value, boxes: Value, box_ind: Value
) -> Value:
    """Check that box coordinates are finite."""
    del grads, image, box_ind
    return are_finite(xp, boxes)


def boxes_are_moderate(
    xp: ArrayNamespace, images: Value, boxes: Value, box_ind: Value, size: Value
) -> Value:
    """Check that box coordinates are finite and of moderate size."""
    del images, box_ind, size
    return are_within(xp, boxes, MAX_MAGNITUDE)


def image_gradients_exist(
    xp: ArrayNamespace, grads: Value, boxes: Value, box_ind: Value, image_size: Value
) -> Value:
    """Check that each box refers to an image in the batch."""
    del grads, boxes
    return in_range(xp, box_ind, 0, image_size[0])


def box_gradients_exist(
    xp: ArrayNamespace, grads: Value, image: Value, boxes: Value, box_ind: Value
) -> Value:
    """Check that each box refers to an image in the batch."""
    del grads, boxes
    return in_range(xp, box_ind, 0, image.shape[0])


def gradient_boxes_are_moderate(
    xp: ArrayNamespace, grads: Value, image: Value, boxes: Value, box_ind: Value
) -> Value:
    """Check that box coordinates are finite and of moderate size."""
    del grads, image, box_ind
    return are_within(xp, boxes, MAX_MAGNITUDE)


def hues_are_moderate(xp: ArrayNamespace, images: Value, delta: Value) -> Value:
    """Check that colors and the change of hue are finite and of moderate size."""
    return are_within(xp, images, MAX_MAGNITUDE) & are_within(xp, delta, MAX_MAGNITUDE)


LOWERINGS: Final = LoweringTable(
    (
        Lowering(
            ("CropAndResize",),
            checks=(
                Check(crops_exist, errors.OutOfRangeError),
                Check(boxes_are_finite, errors.InvalidArgumentError),
                Check(boxes_are_moderate),
            ),
        ),
        Lowering(
            ("CropAndResizeGradImage",),
            checks=(
                Check(image_gradients_exist, errors.OutOfRangeError),
                Check(boxes_are_finite, errors.InvalidArgumentError),
                Check(boxes_are_moderate),
            ),
        ),
        Lowering(
            ("CropAndResizeGradBoxes",),
            checks=(
                Check(box_gradients_exist, errors.OutOfRangeError),
                Check(gradient_boxes_are_finite, errors.InvalidArgumentError),
                Check(gradient_boxes_are_moderate),
            ),
        ),
        Lowering(
            (
                *("ResizeArea", "ResizeBicubic", "ResizeBicubicGrad"),
                *("ScaleAndTranslate", "ScaleAndTranslateGrad"),
            ),
            checks=(Check(pixels_are_finite),),
        ),
        Lowering(("AdjustHue",), checks=(Check(hues_are_moderate),)),
    )
)
