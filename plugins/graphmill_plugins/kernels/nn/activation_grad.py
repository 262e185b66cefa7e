"""Gradients of activations and of BiasAdd, over any array namespace.

Semantics: tensorflow/core/kernels/relu_op_functor.h, softplus_op.h, softsign_op.h, bias_op.cc.
Some take the activation's input ("features"), some its output, as TensorFlow's do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import dtypes, errors
from graphmill.spi import kernel
from graphmill_plugins.kernels._select import passed, where_of
from graphmill_plugins.kernels._support import widen
from graphmill_plugins.kernels.nn.activation import SELU_SCALE, SELU_SCALE_ALPHA
from graphmill_plugins.kernels.nn.window import is_channels_first

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

    from graphmill.spi import ArrayNamespace, Value


def _check(gradients: Value, other: Value) -> None:
    if gradients.shape != other.shape:
        raise errors.InvalidArgumentError(
            "gradients and the activation's tensor must have the same shape, got "
            f"{list(gradients.shape)} and {list(other.shape)}"
        )


@kernel("ReluGrad", types={"T": dtypes.REAL})
def relu_grad(xp: ArrayNamespace, gradients: Value, features: Value) -> Value:
    """Pass gradients where features are positive."""
    _check(gradients, features)
    return passed(xp, features > gradients.dtype.type(0), gradients)


@kernel("Relu6Grad", types={"T": dtypes.REAL})
def relu6_grad(xp: ArrayNamespace, gradients: Value, features: Value) -> Value:
    """Pass gradients where features are between 0 and 6."""
    _check(gradients, features)
    one = gradients.dtype.type
    return passed(xp, (features > one(0)) & (features < one(6)), gradients)


@kernel("LeakyReluGrad", make=True, types={"T": dtypes.FLOATING})
def leaky_relu_grad(
    xp: ArrayNamespace,
    alpha: float,
    T: np.dtype[Any],
) -> Callable[[Value, Value], Value]:
    """Pass gradients where features are positive, alpha times them elsewhere."""
    slope, zero, where = T.type(alpha), T.type(0), where_of(xp)

    def run(gradients: Value, features: Value) -> Value:
        _check(gradients, features)
        return where(features > zero, gradients, gradients * slope)

    return run


@kernel("EluGrad", types={"T": dtypes.FLOATING})
def elu_grad(xp: ArrayNamespace, gradients: Value, outputs: Value) -> Value:
    """Return gradients * (outputs + 1) where outputs are negative, gradients elsewhere."""
    _check(gradients, outputs)
    one = gradients.dtype.type
    return where_of(xp)(outputs < one(0), (outputs + one(1)) * gradients, gradients)


@kernel("SeluGrad", types={"T": dtypes.FLOATING})
def selu_grad(xp: ArrayNamespace, gradients: Value, outputs: Value) -> Value:
    """Return the gradient of the scaled exponential linear unit, from its outputs."""
    _check(gradients, outputs)
    one = gradients.dtype.type
    negative = gradients * (outputs + one(SELU_SCALE_ALPHA))
    return xp.where(outputs < one(0), negative, gradients * one(SELU_SCALE))


@kernel("SoftplusGrad", types={"T": dtypes.FLOATING})
def softplus_grad(xp: ArrayNamespace, gradients: Value, features: Value) -> Value:
    """Return gradients / (exp(-features) + 1)."""
    _check(gradients, features)
    return gradients / (xp.exp(-features) + gradients.dtype.type(1))


@kernel("SoftsignGrad", types={"T": dtypes.FLOATING})
def softsign_grad(xp: ArrayNamespace, gradients: Value, features: Value) -> Value:
    """Return gradients / (1 + |features|) ** 2."""
    _check(gradients, features)
    slope = xp.abs(features) + gradients.dtype.type(1)
    return gradients / (slope * slope)


@kernel("BiasAddGrad", make=True, types={"T": dtypes.NUMERIC})
def bias_add_grad(xp: ArrayNamespace, data_format: str) -> Callable[[Value], Value]:
    """Sum gradients over all axes but the channels."""
    channels_first = is_channels_first("BiasAddGrad", data_format)

    def run(gradients: Value) -> Value:
        if gradients.ndim < 2:
            raise errors.InvalidArgumentError(
                f"Input tensor must be at least 2D: {list(gradients.shape)}"
            )
        channel = 1 if channels_first and gradients.ndim > 2 else gradients.ndim - 1
        axes = tuple(axis for axis in range(gradients.ndim) if axis != channel)
        dtype = gradients.dtype
        wide = widen(dtype) if dtype.kind in "fV" else dtype
        return xp.sum(gradients, axis=axes, dtype=wide).astype(dtype)

    return run
