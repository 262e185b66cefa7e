"""Shapes of linear algebra ops.

Semantics: tensorflow/core/ops/linalg_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size


def determinant(op: ShapeContext) -> TensorShape:
    """Return the shape of an op that returns a number for each matrix."""
    return op.inputs[0].with_rank_at_least(2)[:-2]


def square(op: ShapeContext) -> TensorShape:
    """Return the shape of the input, whose matrices must be square."""
    shape = op.inputs[0].with_rank_at_least(2)
    size = merged_size(shape[-2], shape[-1])
    return shape if shape.dims is None else shape[:-2].concatenate((size, size))


def einsum(op: ShapeContext) -> TensorShape:
    """Return the shape of `Einsum`; what ellipses stand for is broadcast."""
    equation: str = op.get_attr("equation").decode(errors="replace").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if not arrow or len(terms) != len(op.inputs):
        raise InvalidArgumentError(
            f"the equation {equation!r} must have one '->' and {len(op.inputs)} terms before it"
        )
    sizes: dict[str, Size] = {}
    batch = TensorShape(())
    for term, shape in zip(terms, op.inputs, strict=True):
        batch = batch.broadcast_with(_bind_labels(term, shape, sizes))
    before, ellipsis, after = _divided_labels(right)
    if not ellipsis:
        batch.with_rank_at_most(0)
        batch = TensorShape(())
    missing = [label for label in before + after if label not in sizes]
    if missing:
        raise InvalidArgumentError(f"the output label {missing[0]!r} is not in an input")
    first, last = ([sizes[label] for label in labels] for labels in (before, after))
    return TensorShape(first) + batch + TensorShape(last)


def _divided_labels(term: str) -> tuple[str, str, str]:
    """Return the labels before the ellipsis of a term, the ellipsis, and the labels after it."""
    before, ellipsis, after = term.partition("...")
    if "." in before + after:
        raise InvalidArgumentError(f"Expected at most one ellipsis (...) in the term {term!r}")
    return before, ellipsis, after


def _bind_labels(term: str, shape: TensorShape, sizes: dict[str, Size]) -> TensorShape:
    """Enter the sizes that labels stand for; return the sizes that the ellipsis stands for."""
    before, ellipsis, after = _divided_labels(term)
    count = len(before) + len(after)
    shape = shape.with_rank_at_least(count) if ellipsis else shape.with_rank(count)
    if shape.dims is None:
        for label in before + after:
            sizes.setdefault(label, None)
        return UNKNOWN_SHAPE
    end = len(shape.dims) - len(after)
    for label, size in zip(
        before + after, shape.dims[: len(before)] + shape.dims[end:], strict=True
    ):
        sizes[label] = merged_size(sizes.get(label), size)
    return shape[len(before) : end]


def qr(op: ShapeContext) -> tuple[TensorShape, TensorShape]:
    """Return the shapes of the factors: with all columns, or with as many as the rank can be."""
    lead, rows, columns = _matrices(op)
    inner = rows if op.get_attr("full_matrices") else _smaller(rows, columns)
    return TensorShape((*lead, rows, inner)), TensorShape((*lead, inner, columns))


def svd(op: ShapeContext) -> tuple[TensorShape, TensorShape, TensorShape]:
    """Return the shapes of singular values and vectors; these are scalars if not computed."""
    lead, rows, columns = _matrices(op)
    count = _smaller(rows, columns)
    values = TensorShape((*lead, count))
    if not op.get_attr("compute_uv"):
        return values, UNKNOWN_SHAPE, UNKNOWN_SHAPE
    is_full = op.get_attr("full_matrices")
    left = TensorShape((*lead, rows, rows if is_full else count))
    return values, left, TensorShape((*lead, columns, columns if is_full else count))


def _matrices(op: ShapeContext) -> tuple[tuple[Size, ...], Size, Size]:
    """Return the leading sizes, rows and columns of the input."""
    *lead, rows, columns = op.inputs[0].with_rank_at_least(2)
    return tuple(lead), rows, columns


def _smaller(one: Size, other: Size) -> Size:
    return None if one is None or other is None else min(one, other)


@bounded_by(OutputBound.INPUT)
def solved(op: ShapeContext) -> TensorShape:
    """Return the shape of the solutions for square matrices."""
    return _solutions(square(op), op.shape("rhs"), is_square=True)


def least_squares(op: ShapeContext) -> TensorShape:
    """Return the shape of the solutions for matrices of any number of rows and columns."""
    matrices = op.shape("matrix").with_rank_at_least(2)
    return _solutions(matrices, op.shape("rhs"), is_square=False)


@bounded_by(OutputBound.PRODUCT)
def triangular_solved(op: ShapeContext) -> TensorShape:
    """Return the shape of the solutions for triangular matrices; batches broadcast."""
    matrices, right = square(op), op.shape("rhs").with_rank_at_least(2)
    if matrices.rank is None or right.rank is None:
        return UNKNOWN_SHAPE
    rows = merged_size(matrices[-1], right[-2])
    return matrices[:-2].broadcast_with(right[:-2]).concatenate((rows, right[-1]))


@bounded_by(OutputBound.PRODUCT)
def banded_solved(op: ShapeContext) -> TensorShape:
    """Return the shape of the solutions for triangular matrices that are given by bands."""
    bands, right = (shape.with_rank_at_least(2) for shape in op.inputs)
    if bands.dims is None:
        return UNKNOWN_SHAPE
    count, columns = bands.dims[-2:]
    if count is not None and (not count or (columns is not None and count > columns)):
        raise InvalidArgumentError(
            f"a matrix of {columns} columns has from one to {columns} bands, not {count}"
        )
    if right.dims is None:
        return UNKNOWN_SHAPE
    rows = merged_size(columns, right[-2])
    return bands[:-2].broadcast_with(right[:-2]).concatenate((rows, right[-1]))


def _solutions(matrices: TensorShape, right: TensorShape, *, is_square: bool) -> TensorShape:
    """Return the shape of the solutions of equations; batches must be equal."""
    right = right.with_rank_at_least(2)
    rows = merged_size(matrices[-2], right[-2])
    unknowns = merged_size(matrices[-1], rows) if is_square else matrices[-1]
    return matrices[:-2].merge_with(right[:-2]).concatenate((unknowns, right[-1]))


def _if_rank_is_known(function: ShapeFunction) -> ShapeFunction:
    """Return a shape function that leaves all outputs unknown if the rank of the input is."""
    return lambda op: (
        [UNKNOWN_SHAPE] * op.num_outputs if op.inputs[0].rank is None else function(op)
    )


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    ("MatrixDeterminant", determinant),
    ("Cholesky MatrixInverse MatrixExponential MatrixSquareRoot", square),
    ("Einsum", einsum),
    ("MatrixSolve", solved),
    ("MatrixSolveLs", least_squares),
    ("MatrixTriangularSolve", triangular_solved),
    ("BandedTriangularSolve", banded_solved),
    ("Qr", _if_rank_is_known(qr)),
    ("Svd BatchSvd", _if_rank_is_known(svd)),
)
