"""Diag, MatrixDiag, MatrixSetDiag and MatrixBandPart kernels.

Semantics: tensorflow/core/kernels/linalg/matrix_diag_op.cc. Elements are moved by index arrays that
depend only on shapes and on the static diagonal indices, so one definition serves every namespace.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import (
    INT32_MAX,
    check_size,
    is_numpy,
    scalar_int,
    shape_text,
    to_ints,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_LEFT = "LEFT_LEFT"  # the alignment of ops without the attr `align`


def diagonal_band(k: Value) -> tuple[int, int]:
    """Return the lowest and highest diagonal in an input `k` of one or two elements.

    Raises:
        InvalidArgumentError: it does not have one or two elements, or they descend.
    """
    indices = to_ints(k)
    if k.ndim > 1 or not 1 <= len(indices) <= 2:
        raise InvalidArgumentError(
            "diag_index must be a scalar or vector with one or two elements, got shape "
            f"{shape_text(k.shape)}"
        )
    lower, upper = indices[0], indices[-1]
    if lower > upper:
        raise InvalidArgumentError(
            f"lower_diag_index must not be larger than upper_diag_index, got {lower} > {upper}"
        )
    return lower, upper


class _Band:
    """The positions of packed diagonals `lower … upper` in a matrix.

    Row `upper - k` of the packed form holds diagonal `k`, shifted to the left or the right end.
    """

    def __init__(self, rows: int, columns: int, lower: int, upper: int, align: str) -> None:
        self.rows, self.columns, self.lower, self.upper = rows, columns, lower, upper
        above, below = align.split("_")
        self._left_above, self._left_below = above == "LEFT", below == "LEFT"
        self.width = max(min(rows + min(upper, 0), columns + min(-lower, 0)), 0)

    def _shift(self, k: Value) -> Value:
        """Return the offset at which the content of diagonal `k` begins in its packed row."""
        length = np.minimum(self.rows + np.minimum(k, 0), self.columns - np.maximum(k, 0))
        left = ((k >= 0) & self._left_above) | ((k <= 0) & self._left_below)
        return np.where(left, 0, self.width - length)

    def packed_positions(self) -> tuple[Value, Value, Value]:
        """Return row and column of each packed element, and whether it exists."""
        k = np.arange(self.upper, self.lower - 1, -1)[:, None]
        along = np.arange(self.width)[None, :] - self._shift(k)
        row, column = along - np.minimum(k, 0), along + np.maximum(k, 0)
        inside = (along >= 0) & (row < self.rows) & (column < self.columns)
        return np.where(inside, row, 0), np.where(inside, column, 0), inside

    def matrix_positions(self) -> tuple[Value, Value, Value]:
        """Return packed row and column of each matrix element, and whether it exists."""
        is_small = max(self.rows, self.columns) <= INT32_MAX
        dtype: np.dtype[Any] = np.dtype(np.int32 if is_small else np.int64)
        # Positions and temporaries are six integers for each element.
        shape = (self.rows, self.columns)
        check_size(shape, "the table of positions", itemsize=6 * dtype.itemsize)
        row = np.arange(self.rows, dtype=dtype)[:, None]
        column = np.arange(self.columns, dtype=dtype)[None, :]
        k = column - row
        inside = (self.lower <= k) & (k <= self.upper)
        along = np.minimum(row, column) + self._shift(k)
        return np.where(inside, self.upper - k, 0), np.where(inside, along, 0), inside


def _check_matrix(x: Value) -> None:
    if x.ndim < 2:
        raise InvalidArgumentError(
            f"input must be at least 2-dim, received shape: {shape_text(x.shape)}"
        )


def _checked_band(x: Value, k: Value, align: str) -> _Band:
    """Return the band of diagonals `k` of matrices `x`.

    Raises:
        InvalidArgumentError: a diagonal lies outside of the matrix.
    """
    _check_matrix(x)
    lower, upper = diagonal_band(k)
    rows, columns = x.shape[-2:]
    for name, index in (("lower", lower), ("upper", upper)):
        if index and not -rows < index < columns:
            raise InvalidArgumentError(
                f"{name}_diag_index is out of bound: {index}. It must be between {-rows} and "
                f"{columns}"
            )
    return _Band(rows, columns, lower, upper, align)


def _check_padding(padding: Value) -> None:
    if np.ndim(padding):
        raise InvalidArgumentError(
            f"Padding must be scalar, got shape {shape_text(np.shape(padding))}"
        )


def _diagonals(xp: ArrayNamespace, x: Value, band: _Band, padding: Value) -> Value:
    _check_padding(padding)
    rows, columns, inside = band.packed_positions()
    if not x.size:
        packed = xp.full((*x.shape[:-2], *rows.shape), padding, x.dtype)
    else:
        packed = x[..., rows, columns]
        if not inside.all():
            packed = xp.where(inside, packed, padding)
    return packed[..., 0, :] if band.lower == band.upper else packed


@kernel("MatrixDiagPart", "BatchMatrixDiagPart")
def matrix_diag_part(xp: ArrayNamespace, x: Value) -> Value:
    """Return the main diagonals of matrices."""
    _check_matrix(x)
    return xp.diagonal(x, axis1=-2, axis2=-1)


@kernel("MatrixDiagPartV2", static=("k",))
def matrix_diag_part_v2(xp: ArrayNamespace, x: Value, k: Value, padding_value: Value) -> Value:
    """Return diagonals of matrices, shorter ones padded on the right."""
    return _diagonals(xp, x, _checked_band(x, k, _LEFT), padding_value)


@kernel("MatrixDiagPartV3", static=("k",))
def matrix_diag_part_v3(
    xp: ArrayNamespace, x: Value, k: Value, padding_value: Value, *, align: str
) -> Value:
    """Return diagonals of matrices, shorter ones padded on the side given by `align`."""
    return _diagonals(xp, x, _checked_band(x, k, align), padding_value)


@kernel("MatrixSetDiag", "BatchMatrixSetDiag")
def matrix_set_diag(xp: ArrayNamespace, x: Value, diagonal: Value) -> Value:
    """Replace the main diagonals of matrices."""
    return _set_diagonals(xp, x, diagonal, np.zeros((), np.int32), _LEFT)


@kernel("MatrixSetDiagV2", static=("k",))
def matrix_set_diag_v2(xp: ArrayNamespace, x: Value, diagonal: Value, k: Value) -> Value:
    """Replace diagonals of matrices."""
    return _set_diagonals(xp, x, diagonal, k, _LEFT)


@kernel("MatrixSetDiagV3", static=("k",))
def matrix_set_diag_v3(
    xp: ArrayNamespace, x: Value, diagonal: Value, k: Value, *, align: str
) -> Value:
    """Replace diagonals of matrices; `align` determines where shorter ones are padded."""
    return _set_diagonals(xp, x, diagonal, k, align)


def _set_diagonals(xp: ArrayNamespace, x: Value, diagonal: Value, k: Value, align: str) -> Value:
    band = _checked_band(x, k, align)
    count = band.upper - band.lower + 1
    expected = (*x.shape[:-2], *((count,) if count > 1 else ()), band.width)
    if diagonal.shape != expected:
        raise InvalidArgumentError(
            f"diagonal must have shape {shape_text(expected)} for input of shape "
            f"{shape_text(x.shape)}, got {shape_text(diagonal.shape)}"
        )
    if not x.size:
        return x
    if count == 1:
        diagonal = diagonal[..., None, :]
    rows, columns, inside = band.matrix_positions()
    return xp.where(inside, diagonal[..., rows, columns], x)


@kernel("MatrixDiag", "BatchMatrixDiag")
def matrix_diag(xp: ArrayNamespace, diagonal: Value) -> Value:
    """Make square matrices with the given diagonals, zero elsewhere."""
    if diagonal.ndim < 1:
        raise InvalidArgumentError("input must be at least 1-dim, received a scalar")
    size = diagonal.shape[-1]
    check_size((*diagonal.shape, size), itemsize=diagonal.dtype.itemsize)
    if is_numpy(xp) and size:
        return _with_one_diagonal(diagonal, 0, size, size, np.zeros((), diagonal.dtype))
    return xp.where(xp.eye(size, dtype=bool), diagonal[..., None, :], diagonal.dtype.type(0))


@kernel("MatrixDiagV2", static=("k", "num_rows", "num_cols"))
def matrix_diag_v2(
    xp: ArrayNamespace,
    diagonal: Value,
    k: Value,
    num_rows: Value,
    num_cols: Value,
    padding_value: Value,
) -> Value:
    """Make matrices from diagonals padded on the right."""
    return _from_diagonals(xp, diagonal, k, num_rows, num_cols, padding_value, _LEFT)


@kernel("MatrixDiagV3", static=("k", "num_rows", "num_cols"))
def matrix_diag_v3(
    xp: ArrayNamespace,
    diagonal: Value,
    k: Value,
    num_rows: Value,
    num_cols: Value,
    padding_value: Value,
    *,
    align: str,
) -> Value:
    """Make matrices from diagonals padded on the side given by `align`."""
    return _from_diagonals(xp, diagonal, k, num_rows, num_cols, padding_value, align)


def _from_diagonals(
    xp: ArrayNamespace,
    diagonal: Value,
    k: Value,
    num_rows: Value,
    num_cols: Value,
    padding: Value,
    align: str,
) -> Value:
    lower, upper = diagonal_band(k)
    count = upper - lower + 1
    if diagonal.ndim < 1 or (count > 1 and diagonal.shape[-2:-1] != (count,)):
        raise InvalidArgumentError(
            "The number of diagonals provided in the input does not match the lower_diag_index "
            f"and upper_diag_index range {lower} … {upper}: shape {shape_text(diagonal.shape)}"
        )
    _check_padding(padding)
    sizes = scalar_int("num_rows", num_rows), scalar_int("num_cols", num_cols)
    rows, columns = _matrix_size(diagonal.shape[-1], lower, upper, *sizes)
    outer = diagonal.shape[: -1 if count == 1 else -2]
    check_size((*outer, rows, columns), itemsize=diagonal.dtype.itemsize)
    if count == 1:
        diagonal = diagonal[..., None, :]
    if not diagonal.size:
        return xp.full((*diagonal.shape[:-2], rows, columns), padding, diagonal.dtype)
    if count == 1 and is_numpy(xp):
        return _with_one_diagonal(diagonal[..., 0, :], lower, rows, columns, padding)
    row, column, inside = _Band(rows, columns, lower, upper, align).matrix_positions()
    return xp.where(inside, diagonal[..., row, column], padding)


def _with_one_diagonal(diagonal: Value, k: int, rows: int, columns: int, padding: Value) -> Value:
    """Write one diagonal into matrices: its elements are `columns + 1` apart in a flat matrix."""
    matrix = np.full((*diagonal.shape[:-1], rows, columns), padding, diagonal.dtype)
    length = min(rows + min(k, 0), columns - max(k, 0))
    start = k if k >= 0 else -k * columns
    flat = matrix.reshape(*diagonal.shape[:-1], rows * columns)
    stop = start + (length - 1) * (columns + 1) + 1
    flat[..., start : stop : columns + 1] = diagonal[..., :length]
    return matrix


def _matrix_size(width: int, lower: int, upper: int, rows: int, columns: int) -> tuple[int, int]:
    """Return the numbers of rows and columns of matrices whose longest diagonal has `width`.

    `rows` or `columns` is -1 if it follows from the diagonals.

    Raises:
        InvalidArgumentError: the given sizes are too small or do not fit the diagonals.
    """
    least_rows, least_columns = width - min(upper, 0), width + max(lower, 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    elif rows == -1:
        rows = least_rows
    elif columns == -1:
        columns = least_columns
    if rows < least_rows or columns < least_columns:
        raise InvalidArgumentError(
            f"The number of rows or columns is too small: {rows} x {columns}, the diagonals need "
            f"{least_rows} x {least_columns}"
        )
    if rows != least_rows and columns != least_columns:
        raise InvalidArgumentError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, "
            f"and diagonal: {rows} x {columns}, expected {least_rows} rows or {least_columns} "
            "columns"
        )
    return rows, columns


@kernel("Diag")
def diag(xp: ArrayNamespace, diagonal: Value) -> Value:
    """Return a tensor of twice the rank with `diagonal` where both halves of the index agree."""
    if diagonal.ndim < 1:
        raise InvalidArgumentError("Input must be at least rank 1, got 0")
    size = math.prod(diagonal.shape)
    check_size((size, size), itemsize=diagonal.dtype.itemsize)
    flat = diagonal.reshape(size)
    matrix = xp.where(xp.eye(size, dtype=bool), flat[:, None], diagonal.dtype.type(0))
    return matrix.reshape(diagonal.shape * 2)


@kernel("DiagPart")
def diag_part(xp: ArrayNamespace, x: Value) -> Value:
    """Return the elements where both halves of the index agree."""
    half = x.ndim // 2
    if x.ndim == 0:
        return x
    if x.ndim % 2 or x.shape[:half] != x.shape[half:]:
        raise InvalidArgumentError(
            "The rank of the tensor should be even, and its halves equal, got shape "
            f"{shape_text(x.shape)}"
        )
    size = math.prod(x.shape[:half])
    return xp.diagonal(x.reshape((size, size))).reshape(x.shape[:half])


def _check_band(xp: ArrayNamespace, count: Value, size: int, name: str) -> None:
    if count.ndim:
        raise InvalidArgumentError(f"{name} must be scalar, got shape {shape_text(count.shape)}")
    if is_numpy(xp) and count > size:
        raise InvalidArgumentError(
            f"{name} must be negative or less or equal to the size of the matrix ({size}) got: "
            f"{count}"
        )


@kernel("MatrixBandPart", "BatchMatrixBandPart", make=True)
def matrix_band_part(
    xp: ArrayNamespace, T: np.dtype[Any]
) -> Callable[[Value, Value, Value], Value]:
    """Keep `num_lower` diagonals below the main one and `num_upper` above; negative keeps all."""
    zero = T.type(0)

    def keep(x: Value, num_lower: Value, num_upper: Value) -> Value:
        _check_matrix(x)
        rows, columns = x.shape[-2:]
        _check_band(xp, num_lower, rows, "num_lower")
        _check_band(xp, num_upper, columns, "num_upper")
        if not x.size:  # a side may be large nevertheless
            return x
        row, column = xp.arange(rows)[:, None], xp.arange(columns)[None, :]
        inside = row - xp.where(num_lower < 0, rows, num_lower) <= column
        inside = inside & (row + xp.where(num_upper < 0, columns, num_upper) >= column)
        return xp.where(inside, x, zero)

    return keep
