"""Shapes of elementwise ops, reductions and matrix products.

Semantics: tensorflow/core/ops/math_ops.cc and common_shape_fns.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size

_UNARY = """
    Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0
    BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Bucketize
    BucketizeWithInputBoundaries Cast Ceil ComplexAbs Conj Cos Cosh Cumprod Cumsum
    CumulativeLogsumexp Dawsn Digamma Erf Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin
    Imag Inv Invert IsFinite IsInf IsNan Lgamma Log Log1p LogicalNot Ndtri Neg PopulationCount Real
    Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh Spence Sqrt Square Tan Tanh
"""
_BINARY = """
    Add AddV2 Atan2 BitwiseAnd BitwiseOr BitwiseXor Complex Div DivNoNan FloorDiv FloorMod Greater
    GreaterEqual Igamma IgammaGradA Igammac LeftShift Less LessEqual LogicalAnd LogicalOr Maximum
    Minimum Mod Mul MulNoNan NextAfter Polygamma Pow RealDiv RightShift SquaredDifference Sub
    TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Zeta
"""
_NUMBERED_SEGMENTS = """
    SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentProd UnsortedSegmentSum
"""
_REDUCTIONS = "All Any EuclideanNorm Max Mean Min Prod Sum"
_GRADIENTS = "InvGrad ReciprocalGrad RsqrtGrad SigmoidGrad SqrtGrad TanhGrad"


@bounded_by(OutputBound.PRODUCT)
def compared(op: ShapeContext) -> TensorShape:
    """Return the shape of `Equal` and `NotEqual`, which may return a scalar on a shape mismatch."""
    if op.get_attr("incompatible_shape_error"):
        return common.broadcast(op)
    x, y = op.inputs
    if x.is_fully_defined() and y.is_fully_defined() and _can_broadcast(x, y):
        return x.broadcast_with(y)
    return UNKNOWN_SHAPE


@bounded_by(OutputBound.INPUT)
def reduced(op: ShapeContext) -> TensorShape:
    """Return the shape of a reduction: without the reduced axes, or with size 1 for them."""
    shape, keep_dims = op.inputs[0], op.get_attr("keep_dims")
    axes = common.integers(op, "reduction_indices")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    rank = len(shape.dims)
    if axes is None:
        return TensorShape((None,) * rank) if keep_dims else UNKNOWN_SHAPE
    reduced_axes = {common.axis_in(axis, rank) for axis in axes}
    if keep_dims:
        return TensorShape(1 if axis in reduced_axes else n for axis, n in enumerate(shape.dims))
    return TensorShape(n for axis, n in enumerate(shape.dims) if axis not in reduced_axes)


def arg_best(op: ShapeContext) -> TensorShape:
    """Return the shape of `ArgMax` and `ArgMin`: without one axis."""
    shape, axis = op.inputs[0], common.integer(op, "dimension")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    rank = len(shape.dims)
    if rank <= 1:
        return SCALAR  # TensorFlow does not check the axis before the step
    if axis is None:
        return TensorShape((None,) * (rank - 1))
    return shape.with_axis(common.axis_in(axis, rank))


@bounded_by(OutputBound.PRODUCT)
def mat_mul(op: ShapeContext) -> TensorShape:
    """Return the shape of a product of two matrices."""
    a, b = (shape.with_rank(2) for shape in op.inputs[:2])
    rows, inner = _matrix_sizes(a, op.get_attr("transpose_a"))
    other, columns = _matrix_sizes(b, op.get_attr("transpose_b"))
    merged_size(inner, other)
    return TensorShape((rows, columns))


@bounded_by(OutputBound.PRODUCT)
def batch_mat_mul(op: ShapeContext) -> TensorShape:
    """Return the shape of products of matrices; leading dimensions are broadcast."""
    a, b = (shape.with_rank_at_least(2) for shape in op.inputs[:2])
    rows, inner = _matrix_sizes(a[-2:], op.get_attr("adj_x"))
    other, columns = _matrix_sizes(b[-2:], op.get_attr("adj_y"))
    merged_size(inner, other)
    if op.type == "BatchMatMul":
        lead = a[:-2].merge_with(b[:-2])
    else:
        lead = a[:-2].broadcast_with(b[:-2])
    return lead.concatenate([rows, columns])


@bounded_by(OutputBound.INPUT)
def selected(op: ShapeContext) -> TensorShape:
    """Return the shape of `Select`, that of both values; the condition may be a scalar or rows."""
    condition, shape = op.inputs[0], op.inputs[1].merge_with(op.inputs[2])
    if condition.rank == 1:
        condition.merge_with(shape.with_rank_at_least(1)[:1])
    elif condition.rank:
        condition.merge_with(shape)
    return shape


@bounded_by(OutputBound.INPUT)
def equal_or_scalars(op: ShapeContext) -> TensorShape:
    """Return the common shape of the inputs that are not scalars."""
    merged, others = UNKNOWN_SHAPE, [shape for shape in op.inputs if shape.rank != 0]
    for shape in others:
        merged = merged.merge_with(shape)
    is_certain = len(others) < 2 or any(shape.rank is not None for shape in others)
    return SCALAR if not others else merged if is_certain else UNKNOWN_SHAPE


@bounded_by(OutputBound.PRODUCT)
def broadcast_selected(op: ShapeContext) -> TensorShape:
    """Return the shape of `SelectV2`; the condition is checked once that of the values is known."""
    return op.inputs[0].broadcast_with(op.inputs[1].broadcast_with(op.inputs[2]))


def counted_range(op: ShapeContext) -> TensorShape:
    """Return the shape of a `Range`; its length is static if its bounds are."""
    values = [op.value(name) for name in ("start", "limit", "delta")]
    if any(value is None for value in values):
        return TensorShape((None,))
    start, limit, step = (value.reshape(-1)[0] for value in values)  # type: ignore[union-attr]
    if step == 0 or not all(float(number).is_integer() for number in (start, limit, step)):
        return TensorShape((None,))
    return TensorShape((len(range(int(start), int(limit), int(step))),))


def lin_space(op: ShapeContext) -> TensorShape:
    """Return the shape of a `LinSpace`."""
    return TensorShape((common.integer(op, "num"),))


def segments(op: ShapeContext) -> TensorShape:
    """Return the shape of a segment reduction; the ids determine the number of segments."""
    rest = op.shape("data").with_rank_at_least(1)[1:]
    return TensorShape((None,)) + rest


def numbered_segments(op: ShapeContext) -> TensorShape:
    """Return the shape of a segment reduction with an explicit number of segments."""
    data, ids, count = op.inputs[0], op.inputs[1], common.integer(op, "num_segments")
    if ids.dims is None:
        return UNKNOWN_SHAPE
    if count is not None and count < 0:
        raise InvalidArgumentError(f"num_segments must be non-negative but is {count}")
    if data.dims is None:
        return UNKNOWN_SHAPE
    data.with_rank_at_least(len(ids.dims))
    data[: len(ids.dims)].merge_with(ids)
    return TensorShape((count,)) + data[len(ids.dims) :]


@bounded_by(OutputBound.INPUT)
def cross(op: ShapeContext) -> TensorShape:
    """Return the shape of a cross product."""
    return op.inputs[0].merge_with(op.inputs[1])


def _matrix_sizes(shape: TensorShape, transposed: bool) -> tuple[Size, Size]:
    first, second = shape[-2:].with_rank(2)
    return (second, first) if transposed else (first, second)


def _can_broadcast(x: TensorShape, y: TensorShape) -> bool:
    pairs = zip(reversed(x.as_list()), reversed(y.as_list()), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def counted(op: ShapeContext) -> TensorShape:
    """Return the shape of `DenseBincount`: counts, or a row of counts for each row."""
    shape, size = op.inputs[0], common.integer(op, "size")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    return TensorShape((size,) if len(shape.dims) < 2 else (shape[0], size))


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_UNARY, common.unchanged),
    (_BINARY, common.broadcast),
    (_REDUCTIONS, reduced),
    (_GRADIENTS, common.unchanged),
    ("AddN AccumulateNV2 ApproximateEqual", common.all_equal),
    ("Betainc", equal_or_scalars),
    ("Equal NotEqual", compared),
    ("ArgMax ArgMin", common.with_ranks(arg_best, dimension=0)),
    ("MatMul SparseMatMul _FusedMatMul", mat_mul),
    ("BatchMatMul BatchMatMulV2 BatchMatMulV3", batch_mat_mul),
    ("ClipByValue", common.unchanged),
    ("Select", selected),
    ("SelectV2", broadcast_selected),
    ("Cross", cross),
    ("Range", counted_range),
    ("LinSpace", common.with_ranks(lin_space, start=0, stop=0, num=0)),
    (
        "SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum",
        common.with_ranks(segments, segment_ids=1),
    ),
    (_NUMBERED_SEGMENTS, common.with_ranks(numbered_segments, num_segments=0)),
    ("Bincount", lambda op: TensorShape((common.integer(op, "size"),))),
    ("DenseBincount", counted),
    ("HistogramFixedWidth", lambda op: TensorShape((common.integer(op, "nbins"),))),
)
