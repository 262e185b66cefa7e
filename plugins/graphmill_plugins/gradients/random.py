"""Gradients of random ops: none for shapes and seeds; gamma samples depend on alpha.

Semantics: tensorflow/python/ops/random_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.ops import array, math, random
from graphmill.spi import gradient
from graphmill.spi.gradients import not_differentiable
from graphmill_plugins.gradients._support import const, shaped_as

if TYPE_CHECKING:
    from graphmill.spi.gradients import ForwardOp
    from graphmill.spi.graphs import Tensor

none = not_differentiable(
    "RandomStandardNormal", "ParameterizedTruncatedNormal", "TruncatedNormal", "RandomUniform",
    "RandomUniformInt", "Multinomial", "StatelessMultinomial", "StatelessRandomNormal",
    "StatelessRandomNormalV2", "StatelessRandomUniform", "StatelessRandomUniformV2",
    "StatelessRandomUniformInt", "StatelessRandomUniformIntV2", "StatelessTruncatedNormal",
    "StatelessTruncatedNormalV2", "RandomShuffle", "RandomCrop", "StatelessRandomBinomial",
    "StatelessRandomPoisson",
)  # fmt: skip


@gradient("RandomGamma")
def random_gamma(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Sum over the samples of each alpha."""
    shape, alpha = op.inputs
    return [None, _by_alpha(op, dy, alpha, array.size(shape))]


@gradient("StatelessRandomGammaV2", "StatelessRandomGammaV3")
def stateless_random_gamma(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Sum over the samples of each alpha."""
    alpha = op.inputs[-1]
    axes = array.size(op.inputs[0]) - array.rank(alpha)
    return [*[None] * (len(op.inputs) - 1), _by_alpha(op, dy, alpha, axes)]


def _by_alpha(op: ForwardOp, dy: Tensor, alpha: Tensor, axes: Tensor) -> Tensor:
    """Return the gradient of alpha; the samples have `axes` additional leading axes."""
    moved = dy * random.random_gamma_grad(alpha, op.outputs[0])
    return math.sum(moved, math.range(0, axes, 1))


@gradient("StatelessParameterizedTruncatedNormal")
def stateless_parameterized_truncated_normal(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Differentiate the samples at fixed quantiles with respect to the parameters.

    Semantics: Figurnov et al., Implicit Reparameterization Gradients, 2018.
    """
    mean, deviation, low, high = op.inputs[2:]
    z, z_low, z_high = ((value - mean) / deviation for value in (op.outputs[0], low, high))
    quantile = (_normal_cdf(z) - _normal_cdf(z_low)) / (_normal_cdf(z_high) - _normal_cdf(z_low))
    limits = np.finfo(mean.dtype.base_dtype.as_numpy_dtype)
    quantile = math.clip_by_value(
        quantile, const(mean, float(limits.tiny)), const(mean, 1 - float(limits.eps))
    )
    squares = math.square(z)
    by_high = math.exp((squares - math.square(z_high)) * 0.5 + math.log(quantile))
    by_low = math.exp((squares - math.square(z_low)) * 0.5 + math.log1p(-quantile))
    parts = (array.ones_like(z), z, by_low, by_high)
    gradients = [
        shaped_as(op, (op.outputs[0], dy), (parameter, dy * part))[1]
        for parameter, part in zip(op.inputs[2:], parts, strict=True)
    ]
    return [None, None, *gradients]


def _normal_cdf(x: Tensor) -> Tensor:
    """Return the normal distribution function, through `erfc` where that is more accurate."""
    half = x * const(x, np.sqrt(0.5))
    size = math.abs(half)
    tail = math.erfc(size)
    near = 1 + math.erf(half)
    far = math.select_v2(half > const(x, 0), 2 - tail, tail)
    return math.select_v2(size < const(x, np.sqrt(0.5)), near, far) * 0.5
