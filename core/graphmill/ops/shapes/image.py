"""Shapes of image ops.

Semantics: tensorflow/core/ops/image_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction


def resized(op: ShapeContext) -> TensorShape:
    """Return the shape of resized images."""
    count, _, _, channels = op.inputs[0].with_rank(4)
    return TensorShape((count,)) + op.value_as_shape("size").with_rank(2) + (channels,)


def cropped(op: ShapeContext) -> TensorShape:
    """Return the shape of `CropAndResize`."""
    boxes = op.shape("boxes").with_rank(2)
    sizes = op.value_as_shape("crop_size").with_rank(2)
    return TensorShape((boxes[0],)) + sizes + (op.inputs[0].with_rank(4)[3],)


def decoded(op: ShapeContext) -> TensorShape:
    """Return the shape of a decoded image."""
    return TensorShape((None, None, op.get_attr("channels") or None))


@bounded_by(OutputBound.INPUT)
def adjusted(op: ShapeContext) -> TensorShape:
    """Return the shape of images: rows, columns and channels after any other axes."""
    return op.inputs[0].with_rank_at_least(3)


@bounded_by(OutputBound.INPUT)
def colours(op: ShapeContext) -> TensorShape:
    """Return the shape of pixels of three channels."""
    shape = op.inputs[0].with_rank_at_least(1)
    return shape if shape.dims is None else shape.with_axis(-1, merged_size(shape[-1], 3))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor", resized),
    ("AdjustHue AdjustSaturation", adjusted),
    ("AdjustContrastv2", common.with_ranks(adjusted, contrast_factor=0)),
    ("HSVToRGB RGBToHSV", colours),
    ("DrawBoundingBoxes DrawBoundingBoxesV2", common.unchanged),
    ("CropAndResize", cropped),
    ("DecodeJpeg DecodePng", decoded),
)
