"""Gradients of image ops. Semantics: tensorflow/python/ops/image_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import image
from graphmill.plugin.gradient_declaration import gradient, not_differentiable

if TYPE_CHECKING:
    from graphmill.backprop.forward_op import ForwardOp
    from graphmill.graph.tensor import Tensor

none = not_differentiable(
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4",
    "NonMaxSuppressionV5", "DecodeJpeg", "DecodePng", "DecodeImage", "DecodeGif", "ResizeArea",
    "DrawBoundingBoxes", "DrawBoundingBoxesV2", "SampleDistortedBoundingBox",
    "SampleDistortedBoundingBoxV2", "ExtractGlimpse", "ExtractGlimpseV2",
    "StatelessSampleDistortedBoundingBox",
)  # fmt: skip


def _options(op: ForwardOp) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("align_corners", "half_pixel_centers")}


@gradient("ResizeNearestNeighbor")
def resize_nearest_neighbor(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add each pixel to where it came from."""
    size = op.shape(op.inputs[0])[1:3]
    return [image.resize_nearest_neighbor_grad(dy, size, **_options(op)), None]


@gradient("ResizeBilinear")
def resize_bilinear(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Spread each pixel over those that it came from."""
    return [image.resize_bilinear_grad(dy, op.inputs[0], **_options(op)), None]


@gradient("ResizeBicubic")
def resize_bicubic(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Spread each pixel over those that it came from."""
    return [image.resize_bicubic_grad(dy, op.inputs[0], **_options(op)), None]


@gradient("ScaleAndTranslate")
def scale_and_translate(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Spread each pixel over those that it came from."""
    pixels, _, scale, translation = op.inputs
    options = {name: op.get_attr(name) for name in ("kernel_type", "antialias")}
    found = image.scale_and_translate_grad(dy, pixels, scale, translation, **options)
    return [found, None, None, None]


@gradient("CropAndResize")
def crop_and_resize(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Spread each pixel over those that it came from; move the boxes."""
    pixels, boxes, box_index = op.inputs[:3]
    method = op.get_attr("method")
    by_image = None
    if pixels.dtype.base_dtype.is_floating:
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
