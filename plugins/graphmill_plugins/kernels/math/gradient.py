"""Gradients of elementwise functions from the output `y` and its gradient `dy`.

Semantics: tensorflow/core/kernels/cwise_ops_gradients.h. Complex outputs are conjugated, except by
TanhGrad and SigmoidGrad.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import in_float32

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import ArrayNamespace, Value

    Gradient = Callable[[Value, Value], Value]


def _conjugated(xp: ArrayNamespace, T: np.dtype[Any], gradient: Gradient) -> Gradient:
    if T.kind == "c":
        return _paired(lambda y, dy: gradient(xp.conj(y), dy))
    return _paired(in_float32(T, gradient))


def _paired(gradient: Gradient) -> Gradient:
    """Return `gradient` for inputs of equal size; the result has the shape of `y`."""

    def checked(y: Value, dy: Value) -> Value:
        if y.shape != dy.shape:
            if y.size != dy.size:
                raise InvalidArgumentError(
                    "The two arguments to a cwise op must have same number of elements, got "
                    f"{y.size} and {dy.size}"
                )
            dy = dy.reshape(y.shape)
        return gradient(y, dy)

    return checked


@kernel("TanhGrad", make=True)
def tanh_grad(_xp: ArrayNamespace, T: np.dtype[Any]) -> Gradient:
    """Compute dy (1 - y²)."""
    return _paired(in_float32(T, lambda y, dy: dy * (1 - y * y)))


@kernel("SigmoidGrad", make=True)
def sigmoid_grad(_xp: ArrayNamespace, T: np.dtype[Any]) -> Gradient:
    """Compute dy (y (1 - y))."""
    return _paired(in_float32(T, lambda y, dy: dy * (y * (1 - y))))


@kernel("ReciprocalGrad", "InvGrad", make=True)
def reciprocal_grad(xp: ArrayNamespace, T: np.dtype[Any]) -> Gradient:
    """Compute -dy y²; zero where dy is zero, for any y."""
    return _conjugated(xp, T, lambda y, dy: xp.where(dy == 0, dy.dtype.type(0), -dy * (y * y)))


@kernel("SqrtGrad", make=True)
def sqrt_grad(xp: ArrayNamespace, T: np.dtype[Any]) -> Gradient:
    """Compute dy / (2 y); zero where dy is zero, for any y."""
    return _conjugated(xp, T, lambda y, dy: xp.where(dy == 0, dy.dtype.type(0), dy * 0.5 / y))


@kernel("RsqrtGrad", make=True)
def rsqrt_grad(xp: ArrayNamespace, T: np.dtype[Any]) -> Gradient:
    """Compute -dy y³ / 2; zero where dy is zero, for any y."""
    return _conjugated(
        xp, T, lambda y, dy: xp.where(dy == 0, dy.dtype.type(0), dy * y * (y * y) * -0.5)
    )
