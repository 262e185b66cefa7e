"""Gradients of decompositions and solvers. Semantics: tensorflow/python/ops/linalg_grad.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, linalg, math
from graphmill.spi import gradient
from graphmill.spi.gradients import generic_gradient
from graphmill_plugins.gradients._support import const

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor


def _times(a: Tensor, b: Tensor, *, adjoint: str = "") -> Tensor:
    return math.batch_mat_mul_v2(a, b, adj_x="a" in adjoint, adj_y="b" in adjoint)


@gradient("MatrixInverse", "BatchMatrixInverse")
def matrix_inverse(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return -A⁻ᴴ dy A⁻ᴴ."""
    inverse = op.outputs[0]
    if op.get_attr("adjoint"):
        return -_times(_times(inverse, dy, adjoint="b"), inverse)
    return -_times(inverse, _times(dy, inverse, adjoint="b"), adjoint="a")


@gradient("MatrixDeterminant", "BatchMatrixDeterminant")
def matrix_determinant(op: ForwardOp, dy: Tensor) -> Tensor:
    """Return dy |A| A⁻ᴴ."""
    inverse = linalg.matrix_inverse(op.inputs[0], adjoint=True)
    scale = dy * op.outputs[0]
    return array.expand_dims(array.expand_dims(scale, -1), -1) * inverse


@gradient("LogMatrixDeterminant")
def log_matrix_determinant(op: ForwardOp, _sign: Any, dy: Tensor | None) -> Tensor | None:
    """Return dy A⁻ᴴ."""
    if dy is None:
        return None
    inverse = linalg.matrix_inverse(op.inputs[0], adjoint=True)
    return array.expand_dims(array.expand_dims(dy, -1), -1) * inverse


@gradient("MatrixSquareRoot")
def matrix_square_root(op: ForwardOp, dy: Tensor) -> Tensor:
    """Solve Rᵀ X + X Rᵀ = dy for X as one linear system."""
    root = op.outputs[0]
    sizes = array.shape(root)
    size = sizes[-1]
    eye = array.matrix_diag(array.fill(sizes[:-1], const(root, 1)))
    system = _kronecker(eye, _transposed(root)) + _kronecker(root, eye)
    pairs = array.concat_v2([sizes[:-2], array.expand_dims(size * size, 0), [1]], 0)
    solution = linalg.matrix_solve(system, array.reshape(_transposed(dy), pairs))
    return _transposed(array.reshape(solution, sizes))


def _transposed(x: Tensor) -> Tensor:
    rank = array.rank(x)
    order = array.concat_v2([math.range(0, rank - 2, 1), array.pack([rank - 1, rank - 2])], 0)
    return array.transpose(x, order)


def _kronecker(a: Tensor, b: Tensor) -> Tensor:
    """Return the Kronecker products of square matrices of one size."""
    sizes = array.shape(a)
    size, batch = array.expand_dims(sizes[-1], 0), sizes[:-2]
    first = array.reshape(a, array.concat_v2([batch, size, [1], size, [1]], 0))
    second = array.reshape(b, array.concat_v2([batch, [1], size, [1], size], 0))
    return array.reshape(first * second, array.concat_v2([batch, size * size, size * size], 0))


@gradient("MatrixSolve", "BatchMatrixSolve")
def matrix_solve(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Solve with the adjoint."""
    adjoint = op.get_attr("adjoint")
    by_right = linalg.matrix_solve(op.inputs[0], dy, adjoint=not adjoint)
    x = op.outputs[0]
    by_left = -_times(x, by_right, adjoint="b") if adjoint else -_times(by_right, x, adjoint="b")
    return [by_left, by_right]


@gradient("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def matrix_triangular_solve(op: ForwardOp, dy: Tensor) -> list[Tensor]:
    """Solve with the adjoint, restricted to the triangle."""
    a, b = op.inputs
    adjoint, lower = op.get_attr("adjoint"), op.get_attr("lower")
    by_b = linalg.matrix_triangular_solve(a, dy, lower=lower, adjoint=not adjoint)
    x = op.outputs[0]
    by_a = -_times(x, by_b, adjoint="b") if adjoint else -_times(by_b, x, adjoint="b")
    by_a = array.matrix_band_part(by_a, -1, 0) if lower else array.matrix_band_part(by_a, 0, -1)
    gradients = []
    for tensor, value, own in ((a, by_a, op.shape(a)), (b, by_b, op.shape(b))):
        del tensor
        axes = array.broadcast_gradient_args(own[:-2], array.shape(value)[:-2]).r0
        gradients.append(array.reshape(math.sum(value, axes), own))
    return gradients


@gradient("Cholesky", "BatchCholesky")
def cholesky(op: ForwardOp, dy: Tensor) -> Tensor:
    """Differentiate A = L Lᴴ."""
    low = op.outputs[0]
    count = op.shape(low)[-1]
    batch = op.shape(low)[:-2]
    ones = array.fill(
        array.concat_v2([batch, array.expand_dims(count, 0)], 0),
        op.graph.constant(1, low.dtype.base_dtype),
    )
    inverse = linalg.matrix_triangular_solve(low, array.matrix_diag(ones))
    middle = _times(low, dy, adjoint="a")
    half = array.matrix_diag_part(middle) * 0.5
    middle = array.matrix_band_part(array.matrix_set_diag(middle, half), -1, 0)
    dx = _times(_times(inverse, middle, adjoint="a"), inverse)
    turned = math.conj(_swapped(dx)) if dx.dtype.is_complex else _swapped(dx)
    return (dx + turned) * 0.5


def _swapped(tensor: Tensor) -> Tensor:
    """Swap the last two axes."""
    rank = array.rank(tensor)
    order = array.concat_v2([math.range(0, rank - 2, 1), array.pack([rank - 1, rank - 2])], 0)
    return array.transpose(tensor, order)


@gradient("MatrixSolveLs")
def matrix_solve_ls(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Differentiate with respect to matrix and right-hand side; the regularizer has no gradient."""
    return generic_gradient(op, [dy], [True, True, False])
