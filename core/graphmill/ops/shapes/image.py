"""Shapes of image ops.

Semantics: tensorflow/core/ops/image_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import SCALAR, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size

_RESIZED = """
    ResizeArea ResizeBicubic ResizeBilinear ResizeNearestNeighbor ResizeNearestNeighborGrad
"""


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


@bounded_by(OutputBound.INPUT)
def framed(op: ShapeContext) -> TensorShape:
    """Return the shape of images with boxes: grey, or of three colours, or these with alpha."""
    shape = op.inputs[0].with_rank(4)
    if shape[3] not in (None, 1, 3, 4):
        raise InvalidArgumentError(
            "Channel depth should be either 1 (GRY), 3 (RGB), or 4 (RGBA), not {shape[3]}"
        )
    return op.inputs[0]


def glimpses(op: ShapeContext) -> TensorShape:
    """Return the shape of `ExtractGlimpse`."""
    count, _, _, channels = op.inputs[0].with_rank(4)
    if op.get_attr("uniform_noise") and op.get_attr("noise") not in (b"", b"uniform"):
        raise InvalidArgumentError("The uniform_noise should not be True when noise is not uniform")
    return TensorShape((count,)) + op.value_as_shape("size").with_rank(2) + (channels,)


def chosen_boxes(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `NonMaxSuppressionV4`: the chosen boxes, and how many they are."""
    most = _count(op, "max_output_size")
    return [TensorShape((most if op.get_attr("pad_to_max_output_size") else None,)), SCALAR]


def boxes_of_classes(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `CombinedNonMaxSuppression`; boxes may be of all classes together."""
    boxes, scores = op.shape("boxes").with_rank(4), op.shape("scores").with_rank(3)
    if None not in (boxes[2], scores[2]) and boxes[2] != 1:
        merged_size(boxes[2], scores[2])
    _count(op, "max_output_size_per_class")
    total = None if op.get_attr("pad_per_class") else _count(op, "max_total_size")
    shape = TensorShape((boxes[0], total))
    return [shape.concatenate((4,)), shape, shape, TensorShape((boxes[0],))]


def _count(op: ShapeContext, name: str) -> Size:
    """Return the static value of a scalar input that is a size, or None."""
    size = common.integer(op, name)
    if size is not None and size < 0:
        raise InvalidArgumentError(f"input {name!r} must be non-negative but is {size}")
    return size


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_RESIZED, resized),
    ("AdjustHue AdjustSaturation", adjusted),
    ("AdjustContrastv2", common.with_ranks(adjusted, contrast_factor=0)),
    ("HSVToRGB RGBToHSV", colours),
    ("DrawBoundingBoxes", framed),
    ("DrawBoundingBoxesV2", common.unchanged),
    ("ExtractGlimpse ExtractGlimpseV2", glimpses),
    ("NonMaxSuppressionV4", chosen_boxes),
    ("CombinedNonMaxSuppression", boxes_of_classes),
    ("CropAndResize", cropped),
    ("DecodeBmp DecodeJpeg DecodePng", decoded),
)
