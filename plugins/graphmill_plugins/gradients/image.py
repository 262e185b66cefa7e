"""Gradients of image ops. Semantics: tensorflow/python/ops/image_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, image, linalg, math
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import const

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable(
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
    "DecodeJpeg", "DecodePng", "DecodeImage", "DecodeGif", "ResizeBilinearGrad", "HSVToRGB",
    "NonMaxSuppressionWithOverlaps", "DrawBoundingBoxes", "SampleDistortedBoundingBox",
    "SampleDistortedBoundingBoxV2", "ExtractGlimpse",
)  # fmt: skip


def _options(op: ForwardOp) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@gradient("ResizeNearestNeighbor")
def resize_nearest_neighbor(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add each pixel's gradient to its source pixel."""
    size = op.shape(op.inputs[0])[1:3]
    return [image.resize_nearest_neighbor_grad(dy, size, **_options(op)), None]


@gradient("ResizeBilinear")
def resize_bilinear(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Distribute each pixel's gradient over its source pixels."""
    return [image.resize_bilinear_grad(dy, op.inputs[0], **_options(op)), None]


@gradient("ResizeBicubic")
def resize_bicubic(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Distribute each pixel's gradient over its source pixels; 16-bit types have none."""
    if op.inputs[0].dtype.base_dtype.name not in ("float32", "float64"):
        return [None, None]
    return [image.resize_bicubic_grad(dy, op.inputs[0], **_options(op)), None]


@gradient("ScaleAndTranslate")
def scale_and_translate(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Distribute each pixel's gradient over its source pixels."""
    pixels, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    dx = image.scale_and_translate_grad(dy, pixels, scale, translation, **options)
    return [dx, None, None, None]


@gradient("CropAndResize")
def crop_and_resize(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Distribute each pixel's gradient over its source pixels, and over the boxes."""
    pixels, boxes, box_index = op.inputs[:3]
    method = op.get_attr("method")
    by_image = None
    if pixels.dtype.base_dtype.name in ("float16", "float32", "float64"):
        by_image = image.crop_and_resize_grad_image(
            dy,
            boxes,
            box_index,
            op.shape(pixels),
            T=pixels.dtype.base_dtype,
            method=method,
        )
    by_boxes = image.crop_and_resize_grad_boxes(dy, pixels, boxes, box_index)
    return [by_image, by_boxes, None, None]


@gradient("ImageProjectiveTransformV2")
def image_projective_transform(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse transform. Semantics: tensorflow/python/ops/image_ops.py."""
    options = {name: op.get_attr(name) for name in ("interpolation", "fill_mode")}
    size = op.shape(op.inputs[0])[1:3]
    dx = image.image_projective_transform_v2(dy, _inverse(op.inputs[1]), size, **options)
    return [dx, None, None]


@gradient("ImageProjectiveTransformV3")
def image_projective_transform_v3(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse transform; pixels from outside of the image are zero."""
    options = {name: op.get_attr(name) for name in ("interpolation", "fill_mode")}
    size = op.shape(op.inputs[0])[1:3]
    dx = image.image_projective_transform_v3(dy, _inverse(op.inputs[1]), size, 0.0, **options)
    return [dx, None, None, None]


def _inverse(transforms: Tensor) -> Tensor:
    """Invert projective transforms: each row holds the first eight elements of a 3x3 matrix."""
    matrices = array.pad_v2(array.reshape(transforms, [-1, 8]), [[0, 0], [0, 1]], 1.0)
    inverse = linalg.matrix_inverse(array.reshape(matrices, [-1, 3, 3]))
    flat = array.reshape(inverse, [-1, 9])
    return (flat / flat[:, 8:9])[:, :8]


@gradient("RGBToHSV")
def rgb_to_hsv(op: ForwardOp, dy: Tensor) -> Tensor:
    """Differentiate hue, saturation and value with respect to each channel.

    If several channels equal the largest, the first of them counts as the largest.
    """
    rgb = op.inputs[0]
    colours = [rgb[..., i] for i in range(3)]
    largest, smallest = _leading(*colours)
    top, bottom = _chosen(colours, largest), _chosen(colours, smallest)
    width = top - bottom
    # Hue is 1/6 of the signed distance from the largest channel: sign 1 for the channel after it,
    # -1 for the channel before it.
    signs = [largest[i - 1] - largest[(i + 1) % 3] for i in range(3)]
    far = _chosen(colours, signs)
    middle = [1 - a - b for a, b in zip(largest, smallest, strict=True)]
    rest = top - _chosen(colours, middle)
    is_bright = _as(top > const(top, 0), top)
    channels = []
    for i, colour in enumerate(colours):
        is_lit = _as(colour > const(colour, 0), colour)
        by_saturation = is_lit * (
            math.div_no_nan(largest[i] * bottom, math.square(top))
            - math.div_no_nan(smallest[i], top)
        )
        by_hue = is_bright * signs[i] * (
            math.div_no_nan(smallest[i] * rest, math.square(width))
            + math.div_no_nan(middle[i], width)
        ) - is_bright * math.div_no_nan(largest[i] * far, math.square(width))
        hue, saturation, value = dy[..., 0], dy[..., 1], dy[..., 2]
        channels.append(value * largest[i] + saturation * by_saturation + hue * by_hue / 6)
    return array.pack(channels, axis=-1)


def _leading(red: Tensor, green: Tensor, blue: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return masks of the largest and the smallest channel of each pixel, which always differ."""
    both, at_least = math.logical_and, math.greater_equal
    largest = [
        both(at_least(red, green), at_least(red, blue)),
        both(green > red, at_least(green, blue)),
        both(blue > red, blue > green),
    ]
    smallest = [
        both(red < green, red < blue),
        both(at_least(red, green), green < blue),
        both(at_least(red, blue), at_least(green, blue)),
    ]
    return [_as(one, red) for one in largest], [_as(one, red) for one in smallest]


def _as(truth: Tensor, like: Tensor) -> Tensor:
    return math.cast(truth, DstT=like.dtype.base_dtype)


def _chosen(colours: list[Tensor], masks: list[Tensor]) -> Tensor:
    return math.add_n([colour * mask for colour, mask in zip(colours, masks, strict=True)])
