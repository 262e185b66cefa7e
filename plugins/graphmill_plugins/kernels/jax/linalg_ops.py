"""Linear algebra kernels on JAX that differ from NumPy's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel
from graphmill_plugins._lazy_jax import jnp, jsl, lax
from graphmill_plugins.kernels._matmul import adjoint_of
from graphmill_plugins.kernels.linalg.solve import (
    BLAS_TYPES,
    banded_triangular_solve,
    check_rhs,
    check_square,
    tridiagonal_solve,
)

if TYPE_CHECKING:
    from graphmill.spi import Value

_TYPES = {"T": BLAS_TYPES}


@kernel(
    "MatrixTriangularSolve",
    "BatchMatrixTriangularSolve",
    backend="jax",
    types=_TYPES,
    expensive=True,
)
def matrix_triangular_solve(matrix: Value, rhs: Value, *, lower: bool, adjoint: bool) -> Value:
    """Solve with the lower or upper triangles of matrices; batch dimensions broadcast."""
    check_square(matrix)
    check_rhs(matrix, rhs, broadcast=True)
    batch = np.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    matrix = jnp.broadcast_to(matrix, batch + matrix.shape[-2:])
    rhs = jnp.broadcast_to(rhs, batch + rhs.shape[-2:])
    triangle = jnp.tril(matrix) if lower else jnp.triu(matrix)
    if adjoint:
        triangle, lower = adjoint_of(jnp, triangle), not lower
    return lax.linalg.triangular_solve(triangle, rhs, left_side=True, lower=lower)


@kernel("Lu", backend="jax", types=_TYPES, expensive=True)
def lu(x: Value, *, output_idx_type: np.dtype[Any]) -> tuple[Value, Value]:
    """Factor matrices into P L U; return both triangles in one matrix, and the row permutation."""
    check_square(x)
    factors, _, order = lax.linalg.lu(x)
    return factors, order.astype(output_idx_type)


@kernel("MatrixExponential", backend="jax", types=_TYPES, expensive=True)
def matrix_exponential(x: Value, *, T: np.dtype[Any]) -> Value:
    """Compute exponentials of matrices."""
    check_square(x)
    return jsl.expm(x).astype(T) if x.size else x


@kernel("TridiagonalSolve", backend="jax", types=_TYPES, expensive=True)
def tridiagonal_solve_compiled(
    diagonals: Value,
    rhs: Value,
    partial_pivoting: bool,
    perturb_singular: bool,
) -> Value:
    """Solve tridiagonal systems in one compiled loop over the rows."""
    return tridiagonal_solve(jnp, diagonals, rhs, partial_pivoting, perturb_singular, scan=lax.scan)


@kernel("BandedTriangularSolve", backend="jax", types=_TYPES, expensive=True)
def banded_triangular_solve_compiled(
    bands: Value, rhs: Value, *, lower: bool, adjoint: bool
) -> Value:
    """Solve banded triangular systems in one compiled loop over the rows."""
    return banded_triangular_solve(jnp, bands, rhs, lower=lower, adjoint=adjoint, scan=lax.scan)
