"""Matrix products. Narrow floats are multiplied in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._matmul import adjoint_of, matmul_of
from graphmill_plugins.kernels._matmul import product as matrix_product
from graphmill_plugins.kernels._support import accumulator, is_narrow, is_numpy, shape_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

    Product = Callable[[Value, Value], Value]


def _multiplier(xp: ArrayNamespace, T: np.dtype[Any]) -> Product:
    """Return the product of two stacks of matrices of type T."""
    matmul: Product = matmul_of(xp)
    if not is_narrow(T):
        return matmul
    if is_numpy(xp):
        return lambda x, y: matmul(x.astype(np.float32), y.astype(np.float32)).astype(T)
    return lambda x, y: xp.matmul(x, y, preferred_element_type=np.float32).astype(T)


@kernel("MatMul", make=True, expensive=True)
def mat_mul(xp: ArrayNamespace, T: np.dtype[Any], transpose_a: bool, transpose_b: bool) -> Product:
    """Multiply two matrices, each optionally transposed."""
    product = _multiplier(xp, T)
    if is_numpy(xp) and not is_narrow(T):
        product = matrix_product

    def multiply(a: Value, b: Value) -> Value:
        if a.ndim != 2 or b.ndim != 2:
            raise InvalidArgumentError(
                f"MatMul takes two matrices, got shapes {shape_text(a.shape)} and "
                f"{shape_text(b.shape)}"
            )
        if transpose_a:
            a = a.T
        if transpose_b:
            b = b.T
        if a.shape[1] != b.shape[0]:
            raise InvalidArgumentError(
                "Matrix size-incompatible: "
                f"In[0]: {shape_text(a.shape)}, In[1]: {shape_text(b.shape)}"
            )
        return product(a, b)

    return multiply


@kernel("SparseMatMul", types={"Ta": ["float32", "bfloat16"], "Tb": ["float32", "bfloat16"]})
def sparse_mat_mul(
    xp: ArrayNamespace, a: Value, b: Value, *, transpose_a: bool, transpose_b: bool
) -> Value:
    """Multiply two matrices with many zeros as dense matrices; the result is float32."""
    multiply = mat_mul(xp, np.dtype(np.float32), transpose_a, transpose_b)
    return multiply(a.astype(np.float32), b.astype(np.float32))


def _check_stacks(x: Value, y: Value) -> None:
    if x.ndim < 2 or y.ndim < 2:
        raise InvalidArgumentError(
            f"Inputs must have at least 2 dimensions, got shapes {shape_text(x.shape)} and "
            f"{shape_text(y.shape)}"
        )


def _batch_product(
    xp: ArrayNamespace, product: Product, adj_x: bool, adj_y: bool, *, broadcast: bool
) -> Product:
    def multiply(x: Value, y: Value) -> Value:
        _check_stacks(x, y)
        if not broadcast and x.shape[:-2] != y.shape[:-2]:
            raise InvalidArgumentError(
                "In[0] and In[1] must have the same batch dimensions, got "
                f"{shape_text(x.shape)} and {shape_text(y.shape)}"
            )
        if adj_x:
            x = adjoint_of(xp, x)
        if adj_y:
            y = adjoint_of(xp, y)
        if x.shape[-1] != y.shape[-2]:
            raise InvalidArgumentError(
                "Matrix size-incompatible: "
                f"In[0]: {shape_text(x.shape)}, In[1]: {shape_text(y.shape)}"
            )
        return product(x, y)

    return multiply


@kernel("BatchMatMul", make=True, expensive=True)
def batch_mat_mul(xp: ArrayNamespace, T: np.dtype[Any], adj_x: bool, adj_y: bool) -> Product:
    """Multiply stacks of matrices with equal batch dimensions."""
    return _batch_product(xp, _multiplier(xp, T), adj_x, adj_y, broadcast=False)


@kernel("BatchMatMulV2", make=True, expensive=True)
def batch_mat_mul_v2(xp: ArrayNamespace, T: np.dtype[Any], adj_x: bool, adj_y: bool) -> Product:
    """Multiply stacks of matrices; batch dimensions broadcast."""
    return _batch_product(xp, _multiplier(xp, T), adj_x, adj_y, broadcast=True)


@kernel("BatchMatMulV3", make=True, expensive=True)
def batch_mat_mul_v3(xp: ArrayNamespace, Tout: np.dtype[Any], adj_x: bool, adj_y: bool) -> Product:
    """Multiply stacks of matrices of two types into a third; batch dimensions broadcast."""
    wide = accumulator(Tout)
    multiply: Product = matmul_of(xp)

    def product(x: Value, y: Value) -> Value:
        return multiply(x.astype(wide), y.astype(wide)).astype(Tout)

    return _batch_product(xp, product, adj_x, adj_y, broadcast=True)
