"""SparseTensorDenseMatMul: multiply a sparse matrix by a dense one, with NumPy or traced.

Semantics: tensorflow/core/kernels/sparse_tensor_dense_matmul_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import kernel
from graphmill_plugins._optional import import_optional
from graphmill_plugins.kernels._support import accumulator, check_size, shape_text
from graphmill_plugins.kernels.math.segment import combine_sorted
from graphmill_plugins.kernels.sparse._sparse import check_bounds, checked_sizes

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": (*dtypes.FLOATING, *dtypes.COMPLEX, dtypes.int32)}

# With so many products, SciPy's speed pays for its import, which takes a tenth of a second.
_MIN_BLOCKED_PRODUCTS: Final = 1 << 19


def _check(indices: Value, values: Value, shape: Value, b: Value) -> tuple[int, int]:
    """Return the sizes of the sparse matrix.

    Raises:
        InvalidArgumentError: the operands are not matrices, or the sparse parts do not match.
    """
    if b.ndim != 2:
        raise InvalidArgumentError(f"Tensor 'b' is not a matrix: {shape_text(b.shape)}")
    if shape.shape != (2,):
        raise InvalidArgumentError(
            f"Tensor 'a_shape' must have 2 elements, got shape {shape_text(shape.shape)}"
        )
    if values.ndim != 1 or indices.shape != (len(values), 2):
        raise InvalidArgumentError(
            "Tensor 'a_indices' must be a matrix with 2 columns and a row for each element of the "
            f"vector 'a_values', got {shape_text(indices.shape)} and {shape_text(values.shape)}"
        )
    rows, columns = checked_sizes(shape, "a_shape")
    return rows, columns


@kernel("SparseTensorDenseMatMul", types=_TYPES, static=("a_shape",), expensive=True)
def sparse_tensor_dense_matmul(
    xp: ArrayNamespace,
    indices: Value,
    values: Value,
    shape: Value,
    b: Value,
    adjoint_a: bool,
    adjoint_b: bool,
) -> Value:
    """Multiply a sparse matrix by a dense one; either may be conjugated and transposed.

    Raises:
        InvalidArgumentError: shapes do not match; on the host, also if an index is out of range.
    """
    sizes = _check(indices, values, shape, b)
    if xp is np and b.size:
        check_bounds(indices, sizes, "a_indices")
    if adjoint_a:
        sizes, indices, values = sizes[::-1], indices[:, ::-1], xp.conj(values)
    if adjoint_b:
        b = xp.conj(b).T
    if b.shape[0] != sizes[1]:
        raise InvalidArgumentError(
            f"Cannot multiply A and B because inner dimension does not match: {sizes[1]} vs. "
            f"{b.shape[0]}.  Did you forget a transpose?"
        )
    check_size((sizes[0], b.shape[1]), itemsize=values.dtype.itemsize)
    summed = accumulator(values.dtype)
    wide, dense, rows = values.astype(summed), b.astype(summed), indices[:, 0]
    if not b.size:  # no element of b is read, so the indices do not matter
        return xp.zeros((sizes[0], b.shape[1]), values.dtype)
    if xp is np:
        multiply = _multiply if len(rows) * b.shape[1] < _MIN_BLOCKED_PRODUCTS else _multiply_many
        return multiply(sizes, indices, wide, dense).astype(values.dtype, copy=False)
    result = xp.zeros((sizes[0], b.shape[1]), summed)
    products = wide[:, None] * dense[indices[:, 1]]
    return result.at[rows].add(products).astype(values.dtype)


def _multiply(sizes: tuple[int, ...], indices: Value, values: Value, b: Value) -> Value:
    order = np.argsort(indices[:, 0], kind="stable")
    rows, columns = indices.take(order, axis=0).T
    products = b.take(columns, axis=0)
    products *= values.take(order)[:, None]
    return combine_sorted(np.add, products, rows, sizes[0], 0)


def _multiply_many(sizes: tuple[int, ...], indices: Value, values: Value, b: Value) -> Value:
    """Multiply without a temporary array of all products: SciPy accumulates into the rows."""
    try:
        sparse: Any = import_optional("scipy.sparse")
    except UnimplementedError:  # graphmill-lite works without SciPy
        return _multiply(sizes, indices, values, b)
    product: Value = sparse.coo_array((values, (indices[:, 0], indices[:, 1])), shape=sizes) @ b
    return product
