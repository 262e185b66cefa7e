"""Shapes of ops on quantized values.

Semantics: tensorflow/core/ops/math_ops.cc, uniform_quant_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.ops.inference.tensor_shape import SCALAR, TensorShape
from graphmill.ops.shapes.math import mat_mul
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction


_FAKE = """
    FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel
"""
_RANGED_PRODUCTS = """
    QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu
    QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize
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


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("QuantizedAdd QuantizedMul", ranged(broadcast_operands)),
    (_FAKE, common.unchanged),
    (_RANGED_PRODUCTS, ranged(mat_mul)),
    ("QuantizedMatMulWithBiasAndDequantize", mat_mul),
    ("UniformQuantizedAdd", broadcast_operands),
    ("UniformQuantizedDot UniformQuantizedDotHybrid", product),
)
