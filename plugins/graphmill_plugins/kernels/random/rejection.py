"""RandomGamma, RandomPoisson, ParameterizedTruncatedNormal and their stateless forms.

Semantics: tensorflow/core/kernels/random_op.cc, random_poisson_op.cc,
stateless_random_gamma_op.cc, parameterized_truncated_normal_op.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random._bounded import bounded_normal
from graphmill_plugins.kernels.random._rejection import gamma, poisson
from graphmill_plugins.kernels.random.stateful import GuardedPhilox
from graphmill_plugins.kernels.random.stateless import concrete, from_key, scrambled

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, OpKernelConstruction, OpKernelContext, Value

_RNG = ("rng",)


@kernel("RandomGamma", stateful=True, host=True, effects=_RNG)
class RandomGammaKernel:
    """Draw gamma values."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)

    def __call__(self, ctx: OpKernelContext, shape: Value, alpha: Value) -> Value:
        """Return a tensor of `shape` followed by the shape of `alpha`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        if not count or not alpha.size:
            return np.zeros((*sizes, *alpha.shape), alpha.dtype)
        generator = self._source.reserve_outputs(count * alpha.size)
        drawn = gamma(generator, alpha.reshape(-1), count)
        return drawn.reshape((*sizes, *alpha.shape)).astype(alpha.dtype)


@kernel("RandomPoisson", "RandomPoissonV2", stateful=True, host=True, effects=_RNG)
class RandomPoissonKernel:
    """Draw Poisson values."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)
        self._dtype = construction.attr("dtype")

    def __call__(self, ctx: OpKernelContext, shape: Value, rate: Value) -> Value:
        """Return a tensor of `shape` followed by the shape of `rate`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        if not count or not rate.size:
            return np.zeros((*sizes, *rate.shape), self._dtype)
        generator = self._source.reserve_outputs(count * rate.size)
        drawn = poisson(generator, rate.reshape(-1), count)
        return drawn.reshape((*sizes, *rate.shape)).astype(self._dtype)


def _samples_of(sizes: tuple[int, ...], parameter: Value, name: str) -> int:
    """Return the number of samples per element of a parameter for a tensor of these sizes.

    Raises:
        InvalidArgumentError: the sizes do not end with the parameter's shape, or it is empty.
    """
    rank = parameter.ndim
    if sizes[len(sizes) - rank :] != parameter.shape or len(sizes) < rank:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {shape_text(sizes)} does not end "
            f"with {shape_text(parameter.shape)}"
        )
    if not parameter.size:
        raise InvalidArgumentError(f"Input {name} should have non-zero element count, got: 0")
    return int(math.prod(sizes) // parameter.size)


def _stateless_gamma(generator: _philox.Philox, shape: Value, alpha: Value) -> Value:
    sizes, count = _philox.output_shape(shape)
    if not count:
        return np.zeros(sizes, alpha.dtype)
    samples = _samples_of(sizes, alpha, "alpha")
    drawn = gamma(concrete(generator), alpha.reshape(-1), samples)
    return drawn.reshape(sizes).astype(alpha.dtype)


@kernel("StatelessRandomGammaV2", host=True)
def stateless_random_gamma_v2(xp: ArrayNamespace, shape: Value, seed: Value, alpha: Value) -> Value:
    """Draw gamma values; `shape` must end with the shape of `alpha`."""
    return _stateless_gamma(scrambled(xp, seed), shape, alpha)


@kernel("StatelessRandomGammaV3", host=True)
def stateless_random_gamma_v3(
    xp: ArrayNamespace, shape: Value, key: Value, counter: Value, alg: Value, alpha: Value
) -> Value:
    """Draw gamma values; `shape` must end with the shape of `alpha`."""
    return _stateless_gamma(from_key(xp, key, counter, alg), shape, alpha)


@kernel("StatelessRandomPoisson", host=True)
def stateless_random_poisson(
    xp: ArrayNamespace, shape: Value, seed: Value, lam: Value, dtype: np.dtype[Any]
) -> Value:
    """Draw Poisson values; `shape` must end with the shape of `lam`."""
    sizes, count = _philox.output_shape(shape)
    generator = concrete(scrambled(xp, seed))
    if not count:
        return np.zeros(sizes, dtype)
    drawn = poisson(generator, lam.reshape(-1), _samples_of(sizes, lam, "rate"))
    return drawn.reshape(sizes).astype(dtype)


_BATCH_SAMPLES = 100  # samples per batch if all batches have the same parameters
_MAX_ATTEMPTS = 1000


@kernel("ParameterizedTruncatedNormal", stateful=True, host=True, effects=_RNG)
class ParameterizedTruncatedNormalKernel:
    """Draw normal values between bounds; means, deviations and bounds may differ per row."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)

    def __call__(self, ctx: OpKernelContext, shape: Value, *parameters: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        if not sizes:
            raise InvalidArgumentError("Shape tensor must not be empty, got []")
        rows, samples = sizes[0], math.prod(sizes[1:])
        names = ("means", "stddevs", "minvals", "maxvals")
        for name, parameter in zip(names, parameters, strict=True):
            if parameter.ndim > 1 or (parameter.ndim and parameter.shape[0] not in (1, rows)):
                raise InvalidArgumentError(
                    f"Input {name} should be a scalar or have length 1 or shape[0] = {rows}, got "
                    f"shape: {shape_text(parameter.shape)}"
                )
        is_uniform = all(value.size == 1 for value in parameters[:2]) and not any(
            value.ndim for value in parameters[2:]
        )
        if is_uniform:
            rows, samples = -(-count // _BATCH_SAMPLES), _BATCH_SAMPLES
        generator = self._source.reserve(rows * 2 * _MAX_ATTEMPTS * (samples + 3) // 4)
        flat = [np.broadcast_to(value.reshape(-1), (rows,)) for value in parameters]
        return bounded_normal(generator, flat, samples, count).reshape(sizes)


@kernel("StatelessParameterizedTruncatedNormal", host=True)
def stateless_parameterized_truncated_normal(
    xp: ArrayNamespace, shape: Value, seed: Value, *parameters: Value
) -> Value:
    """Draw truncated normal values; the parameters broadcast to `shape`."""
    generator = concrete(scrambled(xp, seed))
    try:
        broadcast = np.broadcast_arrays(*parameters)
    except ValueError as error:
        raise InvalidArgumentError(
            "means, stddevs, minvals, maxvals must have compatible batch dimensions: "
            + " vs. ".join(shape_text(value.shape) for value in parameters)
        ) from error
    sizes, count = _philox.output_shape(shape)
    batch_shape = broadcast[0].shape
    if sizes[len(sizes) - len(batch_shape) :] != batch_shape:
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {shape_text(sizes)} does not end "
            f"with {shape_text(batch_shape)}"
        )
    if not count:
        return np.zeros(sizes, parameters[0].dtype)
    samples = _samples_of(sizes, broadcast[0], "means")
    drawn = bounded_normal(generator, [value.reshape(-1) for value in broadcast], samples, count)
    return np.ascontiguousarray(drawn.reshape(-1, samples).T).reshape(sizes)
