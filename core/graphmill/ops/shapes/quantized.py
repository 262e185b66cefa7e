"""Shapes of ops on quantized values.

Semantics: tensorflow/core/ops/math_ops.cc, uniform_quant_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.array import concatenated, reshaped
from graphmill.ops.shapes.math import mat_mul
from graphmill.ops.shapes.nn import convolution, pool
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size


_FAKE = """
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel
"""
_RANGED_PRODUCTS = """
    QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
"""
_CONVOLUTIONS = """
    QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize
    QuantizedConv2DAndRequantize QuantizedConv2DPerChannel QuantizedConv2DWithBias
    QuantizedConv2DWithBiasAndRelu QuantizedConv2DWithBiasAndReluAndRequantize
    QuantizedConv2DWithBiasAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize
    QuantizedConv2DWithBiasSumAndRelu QuantizedConv2DWithBiasSumAndReluAndRequantize
    QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias
    QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize
"""


def broadcast_operands(op: ShapeContext) -> TensorShape:
    """Return the broadcast shape of the first two inputs; the others are scales."""
    return op.inputs[0].broadcast_with(op.inputs[1])


def product(op: ShapeContext) -> TensorShape:
    """Return the shape of a product of two matrices."""
    left, right = op.inputs[0].with_rank(2), op.inputs[1].with_rank(2)
    return TensorShape((left[0], right[1]))


def ranged(function: ShapeFunction) -> ShapeFunction:
    """Return the shape function of an op that also returns the range of its result."""
    return lambda op: (function(op), SCALAR, SCALAR)


def image_op(function: ShapeFunction) -> ShapeFunction:
    """Return the shape function of an op on images that also returns ranges, for each channel."""
    return lambda op: [function(op), UNKNOWN_SHAPE, UNKNOWN_SHAPE]


def rounded_gradient(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `QuantizeAndDequantizeV4Grad`: a range for all, or for each channel."""
    axis = op.get_attr("axis")
    limits = op.inputs[2].with_rank(0 if axis == -1 else 1).merge_with(op.inputs[3])
    if axis != -1:
        merged_size(op.inputs[0].with_rank_at_least(axis + 1)[axis], limits[0])
    return [op.inputs[0].merge_with(op.inputs[1]), limits, limits]


def scaled_product(op: ShapeContext) -> TensorShape:
    """Return the shape of `UniformQuantizedDot`, after a check of the scales of its operands."""
    shape = product(op)
    _check_scales(op, "rhs", op.shape("rhs")[1] if op.shape("rhs").dims else None)
    if op.type == "UniformQuantizedDot":
        _check_scales(op, "output", shape[1])
    return shape


def _check_scales(op: ShapeContext, name: str, size: Size) -> None:
    """Check that there are a scale and a zero point, or one of both for each column."""
    axis = op.get_attr(f"{name}_quantization_axis")
    scales, zeros = op.shape(f"{name}_scales"), op.shape(f"{name}_zero_points")
    if scales.rank is None or zeros.rank is None:
        return
    scales.with_rank(zeros.rank)
    for shape in (scales, zeros):
        if axis != -1 and shape.rank:
            merged_size(shape[0], size)


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("QuantizedAdd QuantizedMul", ranged(broadcast_operands)),
    (_FAKE, common.unchanged),
    (_RANGED_PRODUCTS, ranged(mat_mul)),
    ("QuantizedMatMulWithBiasAndDequantize", mat_mul),
    ("UniformQuantizedAdd", broadcast_operands),
    ("UniformQuantizedDot UniformQuantizedDotHybrid", scaled_product),
    (_CONVOLUTIONS, image_op(convolution)),
    ("QuantizedAvgPool QuantizedMaxPool _QuantizedMaxPool3D", image_op(pool)),
    ("QuantizedConcat QuantizedConcatV2", ranged(concatenated)),
    ("QuantizedReshape", ranged(reshaped)),
    ("QuantizeAndDequantizeV4Grad", rounded_gradient),
)
