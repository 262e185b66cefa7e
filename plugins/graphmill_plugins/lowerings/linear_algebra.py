"""Checks for matrix ops; singular matrices lead to results that are not finite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from graphmill.spi import Check, Lowering, LoweringTable, NotTraceable, errors
from graphmill_plugins.lowerings.indices import in_range
from graphmill_plugins.lowerings.magnitudes import are_finite

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value


def band_is_inside(xp: ArrayNamespace, matrices: Value, below: Value, above: Value) -> Value:
    """Check that a band is not wider than its matrices."""
    rows, columns = matrices.shape[-2:]
    return xp.all(below <= rows) & xp.all(above <= columns)


def regularizer_is_not_negative(
    xp: ArrayNamespace, matrix: Value, rhs: Value, l2_regularizer: Value
) -> Value:
    """Check that a regularizer is not negative."""
    del matrix, rhs
    return xp.all(l2_regularizer >= 0)


def sparse_indices_exist(
    xp: ArrayNamespace, a_indices: Value, a_values: Value, a_shape: Value, b: Value
) -> Value:
    """Check that the indices of a sparse matrix are within its shape."""
    del a_values, b
    return in_range(xp, a_indices, 0, a_shape)


def matrices_are_real(xp: ArrayNamespace, matrices: Value) -> Value:
    """Reject complex matrices, for which XLA and LAPACK choose different pivots."""
    del xp
    if matrices.dtype.kind == "c":
        raise NotTraceable("XLA and LAPACK choose different pivots for complex matrices")
    return np.True_


def results_are_finite(xp: ArrayNamespace, *results: Value) -> Value:
    """Check that no result is NaN or infinite."""
    holds = np.True_
    for value in results:
        holds = holds & are_finite(xp, value)
    return holds


def factors_are_regular(xp: ArrayNamespace, factors: Value, permutation: Value) -> Value:
    """Check that no pivot is zero."""
    del permutation
    diagonal = xp.diagonal(factors, axis1=-2, axis2=-1)
    return xp.all(diagonal != 0) & are_finite(xp, factors)


def _and_batched(*ops: str) -> tuple[str, ...]:
    """Return ops together with TensorFlow's older versions, whose names begin with `Batch`."""
    return (*ops, *(f"Batch{op}" for op in ops))


_SOLVED: Final = (
    *_and_batched("MatrixInverse", "MatrixSolve", "MatrixSolveLs"),
    "TridiagonalSolve",
)
_DECOMPOSED: Final = (
    *_and_batched("CholeskyGrad", "Svd", "SelfAdjointEig", "SelfAdjointEigV2"),
    "BandedTriangularSolve",
)

LOWERINGS: Final = LoweringTable(
    (
        Lowering(
            _and_batched("MatrixBandPart"),
            checks=(Check(band_is_inside, errors.InvalidArgumentError),),
        ),
        Lowering(
            _and_batched("MatrixSolveLs"),
            checks=(Check(regularizer_is_not_negative, errors.InvalidArgumentError),),
        ),
        Lowering(
            ("SparseTensorDenseMatMul",),
            checks=(Check(sparse_indices_exist, errors.InvalidArgumentError),),
        ),
        Lowering(
            _SOLVED, checks=(Check(results_are_finite, errors.InvalidArgumentError, of="results"),)
        ),
        # If a result is not finite, LAPACK's result differs, but its kernel does not raise.
        Lowering(_DECOMPOSED, checks=(Check(results_are_finite, of="results"),)),
        Lowering(
            ("Lu",),
            checks=(
                Check(matrices_are_real),
                Check(factors_are_regular, errors.InvalidArgumentError, of="results"),
            ),
        ),
    )
)
