"""Shapes of linear algebra ops.

Semantics: tensorflow/core/ops/linalg_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes import _common as common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size


def determinant(op: ShapeContext) -> TensorShape:
    """Return the shape of an op that returns a number for each matrix."""
    return op.inputs[0].with_rank_at_least(2)[:-2]


def square(op: ShapeContext) -> TensorShape:
    """Return the shape of the input, whose matrices must be square."""
    shape = op.inputs[0].with_rank_at_least(2)
    merged_size(shape[-2], shape[-1])
    return shape


def einsum(op: ShapeContext) -> TensorShape:
    """Return the shape of `Einsum`; unknown if the equation has an ellipsis."""
    equation: str = op.get_attr("equation").decode().replace(" ", "")
    left, arrow, right = equation.partition("->")
    if "..." in equation or not arrow:
        return UNKNOWN_SHAPE
    terms = left.split(",")
    if len(terms) != len(op.inputs):
        raise InvalidArgumentError(
            f"the equation {equation!r} has {len(terms)} terms for {len(op.inputs)} inputs"
        )
    sizes: dict[str, Size] = {}
    for labels, shape in zip(terms, op.inputs, strict=True):
        for label, size in zip(labels, shape.with_rank(len(labels)), strict=True):
            sizes[label] = merged_size(sizes.get(label), size)
    missing = [label for label in right if label not in sizes]
    if missing:
        raise InvalidArgumentError(f"the output label {missing[0]!r} is not in an input")
    return TensorShape(sizes[label] for label in right)


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("MatrixDeterminant", determinant),
    ("Cholesky MatrixInverse MatrixExponential MatrixSquareRoot", square),
    ("Einsum", einsum),
)
