"""Shapes of ops that read, write and build diagonals of matrices.

Semantics: tensorflow/core/ops/array_ops.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common

if TYPE_CHECKING:
    from graphmill.ops.inference.shape_inference import ShapeContext
    from graphmill.ops.inference.tensor_shape import Size


def diagonals_read(op: ShapeContext) -> TensorShape:
    """Return the shape of `MatrixDiagPartV2`: one diagonal, or several of equal length."""
    shape = op.inputs[0].with_rank_at_least(2)
    diagonals = None if shape.dims is None else _diagonals(op)
    if shape.dims is None or diagonals is None:
        return UNKNOWN_SHAPE
    lower, upper = diagonals
    rows, columns = shape.dims[-2:]
    _check_inside(lower, upper, rows, columns)
    length = None
    if rows is not None and columns is not None:
        length = min(rows + min(upper, 0), columns - max(lower, 0))
    several = () if lower == upper else (upper - lower + 1,)
    return shape[:-2].concatenate((*several, length))


@bounded_by(OutputBound.INPUT)
def diagonal_written(op: ShapeContext) -> TensorShape:
    """Return the shape of `MatrixSetDiag`, whose diagonal is as long as the matrix has."""
    shape, diagonal = op.inputs[0].with_rank_at_least(2), op.inputs[1]
    if shape.dims is None:
        return shape
    diagonal = diagonal.with_rank(len(shape.dims) - 1)
    _check_batch(shape, diagonal[:-1])
    if None not in shape.dims[-2:]:
        merged_size(min(shape.dims[-2:]), diagonal[-1])  # type: ignore[type-var]
    return shape


@bounded_by(OutputBound.INPUT)
def diagonals_written(op: ShapeContext) -> TensorShape:
    """Return the shape of `MatrixSetDiagV2`, after a check of its diagonals."""
    shape, written = op.inputs[0].with_rank_at_least(2), op.inputs[1]
    diagonals = _diagonals(op)
    if shape.dims is None:
        return shape
    rank = len(shape.dims)
    if diagonals is None:
        written.with_rank_at_least(rank - 1).with_rank_at_most(rank)
        if written.rank == rank - 1:
            _check_batch(shape, written[: rank - 2])
        return shape
    lower, upper = diagonals
    _check_inside(lower, upper, *shape.dims[-2:])
    written = written.with_rank(rank - (lower == upper))
    _check_batch(shape, written[: rank - 2])
    return shape


def matrix_of_diagonals(op: ShapeContext) -> TensorShape:
    """Return the shape of `MatrixDiagV3`: large enough for its diagonals, or as requested."""
    shape = op.inputs[0].with_rank_at_least(1)
    diagonals = None if shape.dims is None else _diagonals(op)
    if shape.dims is None or diagonals is None:
        return UNKNOWN_SHAPE
    lower, upper = diagonals
    lead = shape.dims[:-1]
    if lower != upper:
        shape.with_rank_at_least(2)
        _check_count(shape[-2], lower, upper)
        lead = shape.dims[:-2]
    rows, columns = common.integer(op, "num_rows"), common.integer(op, "num_cols")
    return TensorShape((*lead, *_matrix_sizes(shape[-1], lower, upper, rows, columns)))


def _matrix_sizes(
    length: Size, lower: int, upper: int, rows: Size, columns: Size
) -> tuple[Size, Size]:
    """Return the rows and columns of a matrix with diagonals; -1 is as many as are needed."""
    if length is None:
        return None, None
    least_rows, least_columns = length - min(upper, 0), length + max(lower, 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    given = [(rows, least_rows), (columns, least_columns)]
    is_too_small = any(size is not None and size < least for size, least in given)
    if is_too_small or all(size is not None and size != least for size, least in given):
        raise InvalidArgumentError(
            f"a matrix of {rows} rows and {columns} columns has no diagonals from {lower} to "
            f"{upper} of length {length}"
        )
    return (None, None) if rows is None or columns is None else (rows, columns)


def _diagonals(op: ShapeContext) -> tuple[int, int] | None:
    """Return the first and the last of the diagonals in input `k`, None if they are not static."""
    chosen = common.integers(op, "k")
    if chosen is None:
        return None
    if len(chosen) not in (1, 2):
        raise InvalidArgumentError(f"k must have one or two elements, not {len(chosen)}")
    lower, upper = chosen[0], chosen[-1]
    if lower > upper:
        raise InvalidArgumentError(f"lower_diag_index {lower} is greater than {upper}")
    return lower, upper


def _check_batch(matrices: TensorShape, batch: TensorShape) -> None:
    """Check the leading sizes of diagonals, as TensorFlow does unless all sizes are known."""
    if not matrices.is_fully_defined():
        matrices[:-2].merge_with(batch)


def _check_count(count: Size, lower: int, upper: int) -> None:
    if count is not None and count != upper - lower + 1:
        raise InvalidArgumentError(
            f"diagonal has {count} rows for the {upper - lower + 1} diagonals from {lower} to "
            f"{upper}"
        )


def _check_inside(lower: int, upper: int, rows: Size, columns: Size) -> None:
    """Check that a matrix has diagonals.

    Raises:
        InvalidArgumentError: it has fewer rows or columns.
    """
    if rows is None or columns is None:
        return
    for index in (lower, upper):
        if index and not -rows < index < columns:
            raise InvalidArgumentError(
                f"diagonal {index} is out of bounds of a matrix of {rows} rows and {columns} "
                "columns"
            )
