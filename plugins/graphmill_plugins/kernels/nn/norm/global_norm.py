"""BatchNormWithGlobalNormalization, the oldest batch normalization op, and its gradient.

Semantics: tensorflow/core/kernels/batch_norm_op.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_TYPES = {"T": (dtypes.float16, dtypes.float32, dtypes.float64)}


def _check(x: Value, **vectors: Value) -> None:
    """Raise InvalidArgumentError unless each vector has one element per channel of a 4-D input."""
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional, got {shape_text(x.shape)}")
    for name, vector in vectors.items():
        if vector.shape != x.shape[3:]:
            raise InvalidArgumentError(
                f"{name} must be a vector of {x.shape[3]} channels, got {shape_text(vector.shape)}"
            )


@kernel("BatchNormWithGlobalNormalization", types=_TYPES)
def batch_norm(
    xp: ArrayNamespace,
    x: Value,
    mean: Value,
    variance: Value,
    beta: Value,
    gamma: Value,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> Value:
    """Return (x - mean) / sqrt(variance + epsilon) [* gamma] + beta."""
    _check(x, mean=mean, variance=variance, beta=beta, gamma=gamma)
    factor = 1 / xp.sqrt(variance + x.dtype.type(variance_epsilon))
    if scale_after_normalization:
        factor = factor * gamma
    return (x - mean) * factor + beta


@kernel("BatchNormWithGlobalNormalizationGrad", types=_TYPES)
def batch_norm_grad(
    xp: ArrayNamespace,
    x: Value,
    mean: Value,
    variance: Value,
    gamma: Value,
    gradient: Value,
    variance_epsilon: float,
    scale_after_normalization: bool,
) -> tuple[Value, ...]:
    """Return the gradients of input, mean, variance, beta and gamma."""
    _check(x, mean=mean, variance=variance, gamma=gamma)
    if gradient.shape != x.shape:
        raise InvalidArgumentError(
            f"backprop must have the shape {shape_text(x.shape)} of the input, got "
            f"{shape_text(gradient.shape)}"
        )
    wide = variance + x.dtype.type(variance_epsilon)
    inverse = 1 / xp.sqrt(wide)
    by_beta = gradient.sum(axis=(0, 1, 2), dtype=x.dtype)
    moment = (gradient * (x - mean)).sum(axis=(0, 1, 2), dtype=x.dtype)
    factor = inverse * gamma if scale_after_normalization else inverse
    by_gamma = moment * inverse if scale_after_normalization else xp.zeros_like(gamma)
    by_variance = moment * (factor / wide * x.dtype.type(-0.5))
    return gradient * factor, -by_beta * factor, by_variance, by_beta, by_gamma
