"""Solve linear systems, invert matrices and compute determinants, for stacks of matrices.

Semantics: tensorflow/core/kernels/linalg/. A singular matrix raises on NumPy. While a compiler
traces, values are unknown, and the result is infinite or NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import adjoint_of, matmul_of
from graphmill_plugins.kernels._support import check_size, is_numpy, shape_text
from graphmill_plugins.kernels.linalg._banded import (
    scan_in_python,
    solve_banded,
    solve_tridiagonal,
)
from graphmill_plugins.kernels.linalg._lapack import lapack

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value
    from graphmill_plugins.kernels.linalg._banded import Scan

BLAS_TYPES = (dtypes.float32, dtypes.float64, *dtypes.COMPLEX)
"""Element types of linear algebra."""

_TYPES = {"T": BLAS_TYPES}


def check_square(x: Value, name: str = "Input matrix") -> None:
    """Check that `x` is a stack of square matrices.

    Raises:
        InvalidArgumentError: it is not.
    """
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise InvalidArgumentError(f"{name} must be square, got shape {shape_text(x.shape)}")


def check_rhs(matrix: Value, rhs: Value, *, broadcast: bool = False) -> None:
    """Check that the right-hand sides have the rows and the batch of the matrices.

    Raises:
        InvalidArgumentError: they do not.
    """
    if rhs.ndim < 2 or rhs.shape[-2] != matrix.shape[-2]:
        raise InvalidArgumentError(
            f"Input matrix and rhs are incompatible: {shape_text(matrix.shape)} and "
            f"{shape_text(rhs.shape)}"
        )
    if not broadcast and rhs.shape[:-2] != matrix.shape[:-2]:
        raise InvalidArgumentError(
            f"Batch dimensions of matrix and rhs must be equal, got {shape_text(matrix.shape)} and "
            f"{shape_text(rhs.shape)}"
        )


def _invertible(solve: Callable[..., Value], *arrays: Value) -> Value:
    matrix = arrays[0]
    if isinstance(matrix, np.ndarray) and matrix.shape[-1] and np.isnan(matrix[..., 0, 0]).any():
        # TensorFlow finds no pivot then; NaN elsewhere makes the result NaN.
        raise InvalidArgumentError("Input matrix is not invertible.")
    try:
        return solve(*arrays)
    except np.linalg.LinAlgError:
        raise InvalidArgumentError("Input matrix is not invertible.") from None


@kernel(
    "MatrixInverse",
    "BatchMatrixInverse",
    types={"T": (dtypes.float16, *BLAS_TYPES)},
    expensive=True,
)
def matrix_inverse(xp: ArrayNamespace, x: Value, *, adjoint: bool) -> Value:
    """Invert matrices, or their adjoints.

    Raises:
        InvalidArgumentError: they are not square, or (on NumPy) one is singular.
    """
    check_square(x)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    inverse = _invertible(lapack(xp).inv, adjoint_of(xp, wide) if adjoint else wide)
    return inverse.astype(x.dtype)


@kernel("MatrixDeterminant", "BatchMatrixDeterminant", types=_TYPES, expensive=True)
def matrix_determinant(xp: ArrayNamespace, x: Value) -> Value:
    """Compute determinants; an empty matrix has determinant 1."""
    check_square(x)
    return lapack(xp).det(x)


@kernel("LogMatrixDeterminant", types=_TYPES, expensive=True)
def log_matrix_determinant(
    xp: ArrayNamespace, x: Value, *, T: np.dtype[Any]
) -> tuple[Value, Value]:
    """Compute sign (or phase) and logarithm of the magnitude of determinants."""
    check_square(x)
    sign, logarithm = lapack(xp).slogdet(x)
    return sign, logarithm.astype(T)


@kernel("MatrixSolve", "BatchMatrixSolve", types=_TYPES, expensive=True)
def matrix_solve(xp: ArrayNamespace, matrix: Value, rhs: Value, *, adjoint: bool) -> Value:
    """Solve matrix X = rhs, or adjoint(matrix) X = rhs with `adjoint`.

    Raises:
        InvalidArgumentError: shapes do not fit, or (on NumPy) a matrix is singular.
    """
    check_square(matrix)
    check_rhs(matrix, rhs)
    if not rhs.size:
        return rhs
    return _invertible(lapack(xp).solve, adjoint_of(xp, matrix) if adjoint else matrix, rhs)


@kernel(
    "MatrixTriangularSolve",
    "BatchMatrixTriangularSolve",
    backend="numpy",
    types=_TYPES,
    expensive=True,
)
def matrix_triangular_solve(matrix: Value, rhs: Value, *, lower: bool, adjoint: bool) -> Value:
    """Solve with the lower or upper triangles of matrices; batch dimensions broadcast.

    Where a diagonal holds a zero the result is infinite or nan, as in TensorFlow.

    Raises:
        InvalidArgumentError: shapes do not fit.
    """
    check_square(matrix)
    check_rhs(matrix, rhs, broadcast=True)
    if not matrix.size or not rhs.size:  # a mask of the triangle may be large nevertheless
        batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
        return np.zeros((*batch, *rhs.shape[-2:]), rhs.dtype)
    triangle = np.tril(matrix) if lower else np.triu(matrix)
    if adjoint:
        triangle, lower = adjoint_of(np, triangle), not lower
    try:
        result = _solve_upper(triangle, rhs, lower=lower)
    except np.linalg.LinAlgError:
        return _substitute(triangle, rhs, lower=lower)
    return result if np.isfinite(result).all() else _substitute(triangle, rhs, lower=lower)


def _solve_upper(triangle: Value, rhs: Value, *, lower: bool) -> Value:
    """Solve by LAPACK's general solver, which does not pivot if the triangle is an upper one.

    A lower triangle becomes one by reversing its rows and columns. Pivoting would change the zeros
    of a singular matrix into rounding errors. The solver also multiplies zeros below the diagonal,
    so infinity and NaN spread to rows that do not depend on them.

    Raises:
        LinAlgError: a diagonal holds a zero.
    """
    if not lower:
        return lapack(np).solve(triangle, rhs)
    return lapack(np).solve(triangle[..., ::-1, ::-1], rhs[..., ::-1, :])[..., ::-1, :]


def _substitute(triangle: Value, rhs: Value, *, lower: bool) -> Value:
    """Solve row by row, even if the diagonal holds zeros."""
    size = triangle.shape[-1]
    batch = np.broadcast_shapes(triangle.shape[:-2], rhs.shape[:-2])
    result = np.zeros((*batch, size, rhs.shape[-1]), rhs.dtype)
    for row in range(size) if lower else reversed(range(size)):
        solved = slice(0, row) if lower else slice(row + 1, size)
        product = np.matmul(triangle[..., row : row + 1, solved], result[..., solved, :])
        pivot = triangle[..., row : row + 1, row : row + 1]
        result[..., row : row + 1, :] = (rhs[..., row : row + 1, :] - product) / pivot
    return result


@kernel("MatrixSolveLs", "BatchMatrixSolveLs", types=_TYPES, expensive=True)
def matrix_solve_ls(
    xp: ArrayNamespace,
    matrix: Value,
    rhs: Value,
    l2_regularizer: Value,
    *,
    fast: bool,
    T: np.dtype[Any],
) -> Value:
    """Solve least squares: by regularized normal equations if `fast`, else by pseudoinverse."""
    if matrix.ndim < 2:
        raise InvalidArgumentError(f"matrix must be a matrix, got {shape_text(matrix.shape)}")
    check_rhs(matrix, rhs)
    if l2_regularizer.ndim:
        raise InvalidArgumentError(
            f"l2_regularizer must be a scalar, got shape {shape_text(l2_regularizer.shape)}"
        )
    if is_numpy(xp) and l2_regularizer < 0:
        raise InvalidArgumentError(f"l2_regularizer must be >= 0, got {l2_regularizer}.")
    rows, columns = matrix.shape[-2:]
    if not matrix.size or not rhs.size:
        shape = (*matrix.shape[:-2], columns, rhs.shape[-1])
        check_size(shape, itemsize=T.itemsize)
        return xp.zeros(shape, T)
    matmul = matmul_of(xp)
    if not fast:
        return matmul(lapack(xp).pinv(matrix), rhs).astype(T)
    adjoint, ridge = adjoint_of(xp, matrix), l2_regularizer.astype(T)
    if rows >= columns:
        gram = matmul(adjoint, matrix) + ridge * xp.eye(columns, dtype=T)
        return _invertible(lapack(xp).solve, gram, matmul(adjoint, rhs))
    gram = matmul(matrix, adjoint) + ridge * xp.eye(rows, dtype=T)
    return matmul(adjoint, _invertible(lapack(xp).solve, gram, rhs))


@kernel("TridiagonalMatMul", types=_TYPES)
def tridiagonal_mat_mul(
    xp: ArrayNamespace, superdiag: Value, maindiag: Value, subdiag: Value, rhs: Value
) -> Value:
    """Multiply tridiagonal matrices, given by their diagonals ([..., 1, M]), with rhs.

    Raises:
        InvalidArgumentError: the diagonals are not rows of M values, one for each matrix of `rhs`.
    """
    for name, diagonal in (("superdiag", superdiag), ("maindiag", maindiag), ("subdiag", subdiag)):
        if rhs.ndim < 2 or diagonal.shape != (*rhs.shape[:-2], 1, rhs.shape[-2]):
            raise InvalidArgumentError(
                "All input tensors must have the same outer dimensions, and diagonals a row of M "
                f"values; got {name} {shape_text(diagonal.shape)} for rhs {shape_text(rhs.shape)}"
            )
    up, middle, down = (xp.swapaxes(d, -1, -2) for d in (superdiag, maindiag, subdiag))
    zero = xp.zeros_like(rhs[..., :1, :])
    below = xp.concatenate([rhs[..., 1:, :], zero], -2)
    above = xp.concatenate([zero, rhs[..., :-1, :]], -2)
    return up * below + middle * rhs + down * above


@kernel("TridiagonalSolve", types=_TYPES, expensive=True)
def _tridiagonal_solve(
    xp: ArrayNamespace, diagonals: Value, rhs: Value, partial_pivoting: bool, perturb_singular: bool
) -> Value:
    scan = scan_in_python(xp)
    return tridiagonal_solve(xp, diagonals, rhs, partial_pivoting, perturb_singular, scan)


def tridiagonal_solve(
    xp: ArrayNamespace,
    diagonals: Value,
    rhs: Value,
    partial_pivoting: bool,
    perturb_singular: bool,
    scan: Scan,
) -> Value:
    """Solve tridiagonal systems; diagonals are [..., 3, M]: above, on and below the main one.

    The result of a singular system is NaN (zero for complex types), unless it is perturbed.

    Raises:
        InvalidArgumentError: shapes do not fit.
    """
    if perturb_singular and not partial_pivoting:
        raise InvalidArgumentError(
            "Setting perturb_singular requires also setting partial_pivoting."
        )
    if diagonals.ndim < 2 or diagonals.shape[-2] != 3:
        raise InvalidArgumentError(
            f"Expected diagonals of shape [..., 3, M], got {shape_text(diagonals.shape)}"
        )
    systems = xp.swapaxes(diagonals, -1, -2)
    check_rhs(systems, rhs)
    if not rhs.size:
        return xp.zeros_like(rhs)
    return solve_tridiagonal(
        xp,
        scan,
        diagonals,
        rhs,
        pivoting=partial_pivoting,
        perturb=perturb_singular,
    )


@kernel("BandedTriangularSolve", types=_TYPES, expensive=True)
def _banded_triangular_solve(
    xp: ArrayNamespace, bands: Value, rhs: Value, *, lower: bool, adjoint: bool
) -> Value:
    scan = scan_in_python(xp)
    return banded_triangular_solve(xp, bands, rhs, lower=lower, adjoint=adjoint, scan=scan)


def banded_triangular_solve(
    xp: ArrayNamespace, bands: Value, rhs: Value, *, lower: bool, adjoint: bool, scan: Scan
) -> Value:
    """Solve triangular systems given by bands [..., K, M]; batch dimensions broadcast.

    Raises:
        InvalidArgumentError: shapes do not fit, or (on NumPy) a matrix is singular.
        ResourceExhaustedError: the result is larger than the session's memory budget.
    """
    if bands.ndim < 2 or rhs.ndim < 2 or bands.shape[-1] != rhs.shape[-2]:
        raise InvalidArgumentError(
            f"Input matrix and rhs are incompatible: {shape_text(bands.shape)} and "
            f"{shape_text(rhs.shape)}"
        )
    for name, value in (("bands", bands), ("right-hand sides", rhs)):
        if not value.size:
            raise InvalidArgumentError(
                f"the {name} must not be empty, got shape {shape_text(value.shape)}"
            )
    if is_numpy(xp) and not np.all(bands[..., 0 if lower else -1, :]):
        raise InvalidArgumentError("Input matrix is not invertible.")
    batch = np.broadcast_shapes(bands.shape[:-2], rhs.shape[:-2])
    check_size(batch + rhs.shape[-2:], itemsize=rhs.dtype.itemsize)
    check_size(batch + bands.shape[-2:], "the bands", itemsize=bands.dtype.itemsize)
    return solve_banded(
        xp,
        scan,
        xp.broadcast_to(bands, batch + bands.shape[-2:]),
        xp.broadcast_to(rhs, batch + rhs.shape[-2:]),
        lower=lower,
        adjoint=adjoint,
    )
