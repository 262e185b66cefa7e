"""Matrix decompositions and matrix functions, for stacks of matrices.

Semantics: tensorflow/core/kernels/linalg/. Eigenvectors and singular vectors are defined only up to
a phase, which may differ from TensorFlow's. `Eig` returns the eigenvalues of real matrices in the
order of the solver.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill.spi.process import warnings_ignored
from graphmill_plugins.kernels._matmul import adjoint_of, matmul_of, stacked_product
from graphmill_plugins.kernels._support import check_size, is_numpy, shape_text
from graphmill_plugins.kernels.linalg._lapack import call_scipy, lapack
from graphmill_plugins.kernels.linalg.solve import BLAS_TYPES, check_square

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": BLAS_TYPES}
_REPEATS: Final = 32
"""About how many products a function of a matrix takes, such as a logarithm."""
_MAX_CONDITION: Final = 16
"""Condition of eigenvectors, for logarithms of 1, up to which they are exact enough for float64."""


@kernel("Cholesky", "BatchCholesky", types=_TYPES, expensive=True)
def cholesky(xp: ArrayNamespace, x: Value) -> Value:
    """Factor positive definite matrices into L L*; only the lower triangles are read.

    The factor of a matrix that is not positive definite is nan, as in TensorFlow.

    Raises:
        InvalidArgumentError: a matrix is not square.
    """
    check_square(x)
    if not is_numpy(xp):  # JAX averages both triangles
        below = xp.tril(x, -1)
        x = xp.tril(x) + adjoint_of(xp, below)
    try:
        return lapack(xp).cholesky(x)
    except np.linalg.LinAlgError:
        return _cholesky_one_by_one(x)


def _cholesky_one_by_one(x: Value) -> Value:
    result = np.tril(np.full(x.shape, np.nan, x.dtype))
    for index in np.ndindex(x.shape[:-2]):
        with contextlib.suppress(np.linalg.LinAlgError):
            result[index] = lapack(np).cholesky(x[index])
    return result


@kernel("CholeskyGrad", "BatchCholeskyGrad", types=_TYPES, expensive=True)
def cholesky_grad(xp: ArrayNamespace, factor: Value, grad: Value) -> Value:
    """Compute the gradient of a Cholesky factorisation, as a symmetric matrix."""
    check_square(factor)
    if grad.shape != factor.shape:
        raise InvalidArgumentError(
            f"the gradient must have the factor's shape {shape_text(factor.shape)}, got "
            f"{shape_text(grad.shape)}"
        )
    if not factor.size:  # a mask of the triangle may be large nevertheless
        return grad
    factor = xp.tril(factor)
    # S = L^-T Φ(Lᵀ grad) L^-1, Φ the lower triangle with half of the diagonal.
    product = matmul_of(xp)(adjoint_of(xp, factor), xp.tril(grad))
    size = factor.shape[-1]
    half = xp.tril(product) * (1 - 0.5 * xp.eye(size, dtype=factor.dtype))
    left = lapack(xp).solve(adjoint_of(xp, factor), half)
    inner = adjoint_of(xp, lapack(xp).solve(adjoint_of(xp, factor), adjoint_of(xp, left)))
    return (inner + adjoint_of(xp, inner)) / 2


def _check_full(x: Value, axes: tuple[int, ...]) -> None:
    """Check that square factors, as large as these axes of `x`, can be allocated."""
    for axis in axes:
        size = x.shape[axis]
        check_size((*x.shape[:-2], size, size), "a factor", itemsize=x.dtype.itemsize)


@kernel("Qr", types={"T": (dtypes.float16, *BLAS_TYPES)}, expensive=True)
def qr(xp: ArrayNamespace, x: Value, *, full_matrices: bool) -> tuple[Value, Value]:
    """Factor matrices into orthonormal columns and upper triangles."""
    if x.ndim < 2:
        raise InvalidArgumentError(f"Input must be a matrix, got shape {shape_text(x.shape)}")
    if full_matrices:
        _check_full(x, axes=(-2,))
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    q, r = lapack(xp).qr(wide, mode="complete" if full_matrices else "reduced")
    return q.astype(x.dtype), r.astype(x.dtype)


@kernel("Svd", "BatchSvd", types=_TYPES, expensive=True)
def svd(
    xp: ArrayNamespace, x: Value, *, compute_uv: bool, full_matrices: bool, T: np.dtype[Any]
) -> tuple[Value, Value, Value]:
    """Return singular values, left and right singular vectors (as columns) of matrices."""
    if x.ndim < 2:
        raise InvalidArgumentError(f"Input must be a matrix, got shape {shape_text(x.shape)}")
    # LAPACK may not terminate on NaN or infinity; TensorFlow returns NaN for such matrices.
    finite = xp.isfinite(x).all(axis=(-2, -1), keepdims=True)
    x = xp.where(finite, x, xp.zeros_like(x))
    if not compute_uv:
        values = lapack(xp).svd(x, compute_uv=False)
        return xp.where(finite[..., 0], values, np.nan).astype(T), xp.zeros((), T), xp.zeros((), T)
    if full_matrices:
        _check_full(x, axes=(-2, -1))
    u, values, right = lapack(xp).svd(x, full_matrices=full_matrices)
    values = xp.where(finite[..., 0], values, np.nan)
    left, right = (xp.where(finite, v, np.nan).astype(T) for v in (u, adjoint_of(xp, right)))
    return values.astype(T), left, right


@kernel("SelfAdjointEigV2", "BatchSelfAdjointEigV2", types=_TYPES, expensive=True)
def self_adjoint_eig_v2(
    xp: ArrayNamespace, x: Value, *, compute_v: bool, T: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return ascending eigenvalues and eigenvectors of self-adjoint matrices (lower triangles)."""
    check_square(x)
    if not compute_v:
        return _eigvalsh(xp, x).astype(T), xp.zeros((), T)
    values, vectors = _eigh(xp, x)
    return values.astype(T), vectors


@kernel("SelfAdjointEig", "BatchSelfAdjointEig", types=_TYPES, expensive=True)
def self_adjoint_eig(xp: ArrayNamespace, x: Value) -> Value:
    """Return eigenvalues in a first row above the eigenvectors of self-adjoint matrices."""
    check_square(x)
    values, vectors = _eigh(xp, x)
    return xp.concatenate([values[..., None, :].astype(x.dtype), vectors], -2)


def _lower(xp: ArrayNamespace, x: Value) -> Value:
    """Mirror the lower triangles, for namespaces that average both."""
    if not x.size:  # a mask of the triangle may be large nevertheless
        return x
    strictly = xp.tril(x, -1)
    diagonal = xp.tril(x) - strictly
    if x.dtype.kind == "c":
        diagonal = xp.real(diagonal).astype(x.dtype)
    return diagonal + strictly + adjoint_of(xp, strictly)


def _eigh(xp: ArrayNamespace, x: Value) -> tuple[Value, Value]:
    values, vectors = lapack(xp).eigh(_lower(xp, x))
    return values, vectors


def _eigvalsh(xp: ArrayNamespace, x: Value) -> Value:
    return lapack(xp).eigvalsh(_lower(xp, x))


@kernel("Eig", backend="numpy", expensive=True)
def eig(x: Value, *, compute_v: bool, Tout: np.dtype[Any]) -> tuple[Value, Value]:
    """Return eigenvalues and eigenvectors of any square matrices.

    Eigenvalues of complex matrices ascend by magnitude; those of real ones are not ordered.
    """
    check_square(x)
    if compute_v:
        values, vectors = lapack(np).eig(x)
    else:
        values, vectors = lapack(np).eigvals(x), np.zeros((), Tout)
    if x.dtype.kind == "c":  # TensorFlow's solver sorts these only
        order = np.argsort(np.abs(values), axis=-1, kind="stable")
        values = np.take_along_axis(values, order, -1)
        if compute_v:
            vectors = np.take_along_axis(vectors, order[..., None, :], -1)
    return values.astype(Tout), vectors.astype(Tout)


@kernel("Lu", backend="numpy", types=_TYPES, expensive=True)
def lu(x: Value, *, output_idx_type: np.dtype[Any]) -> tuple[Value, Value]:
    """Factor matrices into P L U: both triangles in one matrix, and the permutation of the rows.

    Raises:
        InvalidArgumentError: a matrix is not square, or singular.
    """
    check_square(x)
    factors = np.array(x, order="C")
    orders = np.zeros(x.shape[:-1], output_idx_type)
    for index in np.ndindex(x.shape[:-2]):
        orders[index] = _factor_in_place(factors[index])
    return factors, orders


def _factor_in_place(matrix: Value) -> Value:
    """Eliminate with partial pivoting; return the input's row for each row."""
    size = matrix.shape[0]
    order = np.arange(size)
    for step in range(size):
        pivot = step + int(np.argmax(np.abs(matrix[step:, step])))
        if matrix[pivot, step] == 0:
            raise InvalidArgumentError("Input is not invertible.")
        if pivot != step:
            matrix[[step, pivot]] = matrix[[pivot, step]]
            order[[step, pivot]] = order[[pivot, step]]
        matrix[step + 1 :, step] /= matrix[step, step]
        matrix[step + 1 :, step + 1 :] -= np.outer(
            matrix[step + 1 :, step], matrix[step, step + 1 :]
        )
    return order


def _each_matrix(name: str, x: Value, dtype: np.dtype[Any]) -> Value:
    """Apply a SciPy function to each matrix of a stack."""
    check_square(x)
    linalg: Any = importlib.import_module("scipy.linalg")
    function: Callable[[Value], Value] = getattr(linalg, name)
    result = np.empty(x.shape, dtype)
    with warnings_ignored():  # SciPy warns about errors far below float32's precision
        for index in cancellable(np.ndindex(x.shape[:-2]), 1):
            value = call_scipy(function, x[index], _REPEATS) if x.shape[-1] else x[index]
            result[index] = value if dtype.kind == "c" else np.real(value)
    return result


@kernel("MatrixExponential", backend="numpy", types=_TYPES, expensive=True)
def matrix_exponential(x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute exponentials of matrices."""
    return _each_matrix("expm", x, T)


@kernel("MatrixLogarithm", backend="numpy", types=_TYPES, expensive=True)
def matrix_logarithm(x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute principal logarithms of complex matrices; singular ones have NaN, as in Eigen.

    SciPy's function takes ten times as long as eigenvectors, which are exact enough for most.
    """
    check_square(x)
    finite = np.where(np.isfinite(x), x, 1).astype(np.complex128)
    values, vectors = lapack(np).eig(finite)
    inverse = _inverse(vectors)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
        result = stacked_product(vectors * logs[..., None, :], inverse).astype(T)
    bound = _MAX_CONDITION * np.finfo(T).eps / np.finfo(np.float64).eps
    bounds = bound * np.abs(logs).max(axis=-1, initial=0)
    is_inexact = ~(_norm(vectors) * _norm(inverse) < bounds)
    result[is_inexact] = _each_matrix("logm", finite[is_inexact], T)
    result[_have_zero(values) | ~np.isfinite(x).all(axis=(-2, -1))] = complex(np.nan, np.nan)
    return result


def _inverse(matrices: Value) -> Value:
    """Return the inverses of matrices, or NaN if one has none."""
    try:
        return lapack(np).inv(matrices)
    except np.linalg.LinAlgError:
        return _nans(matrices)


def _norm(matrices: Value) -> Value:
    """Return the largest sums of magnitudes of a row."""
    return np.abs(matrices).sum(axis=-1).max(axis=-1, initial=0)


def _have_zero(eigenvalues: Value) -> Value:
    """Return which matrices have an eigenvalue that is zero except for rounding in float64."""
    sizes = np.abs(eigenvalues)
    largest = sizes.max(axis=-1, initial=0)
    smallest = sizes.min(axis=-1, initial=np.inf)
    return smallest <= 4 * np.finfo(np.float64).eps * largest


@kernel("MatrixSquareRoot", backend="numpy", types=_TYPES, expensive=True)
def matrix_square_root(x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute principal square roots of matrices.

    Like Eigen, return NaN for real matrices with a negative eigenvalue, whose roots are not real,
    and for all matrices with two eigenvalues of zero or with an element that is not finite.
    """
    check_square(x)
    result = np.empty(x.shape, T)
    for index in cancellable(np.ndindex(x.shape[:-2] if x.shape[-1] else (0,)), 1):
        result[index] = call_scipy(_square_root, x[index], _REPEATS)
    return result


def _square_root(matrix: Value) -> Value:
    if not np.isfinite(matrix).all():
        return _nans(matrix)
    linalg: Any = importlib.import_module("scipy.linalg")
    is_real = matrix.dtype.kind == "f"
    triangle, basis = linalg.schur(matrix, output="real" if is_real else "complex")
    eigenvalues = np.diagonal(triangle)
    if is_real:  # 2x2 blocks hold conjugate pairs, which have a real root
        subdiagonal = np.concatenate([[0], np.diagonal(triangle, -1), [0]])
        eigenvalues = eigenvalues[(subdiagonal[:-1] == 0) & (subdiagonal[1:] == 0)]
    if (is_real and (eigenvalues < 0).any()) or np.count_nonzero(eigenvalues == 0) > 1:
        return _nans(matrix)
    with warnings_ignored():  # SciPy warns about errors far below float32's precision
        root = linalg.sqrtm(triangle)
    return basis @ (np.real(root) if is_real else root) @ basis.conj().T


def _nans(like: Value) -> Value:
    return np.full_like(like, complex(np.nan, np.nan) if like.dtype.kind == "c" else np.nan)
