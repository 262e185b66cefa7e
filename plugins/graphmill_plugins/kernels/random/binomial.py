"""Binomial samples: StatelessRandomBinomial and StatefulRandomBinomial; NumPy only.

Semantics: tensorflow/core/kernels/random_binomial_op.cc. The methods are public: inversion by
geometric samples where the mean is small, else Hörmann's transformed rejection (1993).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, shape_text
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random._rejection import Lanes, draw_first_accepted
from graphmill_plugins.kernels.random.generator import advance, check_algorithm
from graphmill_plugins.kernels.random.stateless import concrete, scrambled

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, OpKernelContext, Value

_STRIDES = {"inversion": 42, "rejection": 256}  # counters between outputs
_RESERVED = 2 * 100
_STIRLING_ERRORS = np.array(
    [
        0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
        0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
        0.00925546218271273, 0.00833056343336287,
    ]
)  # fmt: skip


def _stirling_error(k: Any) -> Any:
    """Return the error term of Stirling's formula for log(k!)."""
    square = (k + 1) * (k + 1)
    far = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return np.where(k <= 9, _STIRLING_ERRORS[np.clip(k, 0, 9).astype(np.intp)], far)


def _by_inversion(lanes: Lanes, count: Any, probability: Any, out: Any, pending: Any) -> None:
    """Draw by counting the geometric samples whose sum does not exceed the count."""
    total = np.zeros(out.size)
    out[pending] = 0
    while pending.size:
        uniforms = lanes.pairs(pending)[..., ::-1].reshape(pending.size, -1)
        totals = np.ceil(np.log(uniforms) / np.log1p(-probability[pending, None]))
        totals[:, 0] += total[pending]
        np.add.accumulate(totals, axis=1, out=totals)
        is_within = ~(totals > count[pending, None])
        out[pending] += np.count_nonzero(is_within, axis=1)
        total[pending] = totals[:, -1]
        pending = pending[is_within[:, -1]]


def _by_rejection(lanes: Lanes, counts: Any, probabilities: Any, out: Any, pending: Any) -> None:
    """Draw by transformed rejection (Hörmann)."""
    deviation = np.sqrt(counts * probabilities * (1 - probabilities))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * probabilities

    def attempt(outputs: Any, u: Any, v: Any) -> tuple[Any, Any]:
        us = 0.5 - np.abs(u)
        mean = counts[outputs] * probabilities[outputs]
        k = np.floor((2 * a[outputs] / us + b[outputs]) * u + mean + 0.5)
        is_accepted = (us >= 0.07) & (v <= 0.92 - 4.2 / b[outputs])
        is_possible = (k >= 0) & (k <= counts[outputs])
        rest = (is_possible & ~is_accepted).nonzero()  # few: the exact test
        one, us = outputs[rest[0], 0], us[rest]
        scaled = v[rest] * (2.83 + 5.1 / b[one]) * deviation[one] / (a[one] / (us * us) + b[one])
        limit = _log_ratio(counts[one], probabilities[one], k[rest])
        is_accepted[rest] = np.log(scaled) <= limit
        return k, is_accepted

    draw_first_accepted(lanes, out, pending, attempt)


def _log_ratio(count: Any, probability: Any, k: Any) -> Any:
    """Return the logarithms of the probabilities of `k` successes, less those of the mode."""
    odds = probability / (1 - probability)
    mode = np.floor((count + 1) * probability)
    return (
        (mode + 0.5) * np.log((mode + 1) / (odds * (count - mode + 1)))
        + (count + 1) * np.log((count - mode + 1) / (count - k + 1))
        + (k + 0.5) * np.log(odds * (count - k + 1) / (k + 1))
        + _stirling_error(mode) + _stirling_error(count - mode)
        - _stirling_error(k) - _stirling_error(count - k)
    )  # fmt: skip


def binomial(generator: _philox.Philox, counts: Any, probabilities: Any, samples: int) -> Any:
    """Return samples for pairs of a count and a probability, as float64 (samples, pairs)."""
    count = np.repeat(counts.astype(np.float64), samples)
    probability = np.repeat(probabilities, samples)
    is_likely = probability > 0.5
    rare = np.where(is_likely, probability.dtype.type(1) - probability, probability)
    mean = np.repeat(counts, samples) * rare
    rare = rare.astype(np.float64)
    out = np.full(count.size, np.nan)
    is_zero = (count <= 0) | (probability <= 0)
    is_certain = ~is_zero & (probability >= 1)
    out[is_zero] = 0
    out[is_certain] = 0  # the number of failures; subtracted from the count below
    # For a NaN or infinite count no sample would be accepted: the result is NaN.
    drawn = ~is_zero & ~is_certain & ~np.isnan(probability) & np.isfinite(count)
    is_large = mean >= 10
    outputs = np.arange(count.size)
    for method, chosen, draw in (
        ("inversion", drawn & ~is_large, _by_inversion),
        ("rejection", drawn & is_large, _by_rejection),
    ):
        lanes = Lanes(generator, outputs, _STRIDES[method])
        draw(lanes, count, rare, out, outputs[chosen])
    out = np.where(is_likely & ~is_zero, count - out, out)
    return out.reshape(counts.size, samples).T


def _parameters(sizes: tuple[int, ...], counts: Value, probs: Value) -> tuple[Any, Any, int]:
    """Return both parameters as vectors, and the number of samples per pair.

    Raises:
        InvalidArgumentError: they do not broadcast, or the shape does not end with theirs.
    """
    try:
        shape = np.broadcast_shapes(counts.shape, probs.shape)
    except ValueError:
        raise InvalidArgumentError(
            "counts and probs must have compatible batch dimensions: "
            f"{shape_text(counts.shape)} vs. {shape_text(probs.shape)}"
        ) from None
    if sizes[len(sizes) - len(shape) :] != shape or len(sizes) < len(shape):
        raise InvalidArgumentError(
            f"Shape passed in must end with broadcasted shape: {shape_text(sizes)} does not end "
            f"with {shape_text(shape)}"
        )
    check_size(sizes)
    samples = math.prod(sizes[: len(sizes) - len(shape)])
    flat = [np.broadcast_to(value, shape).reshape(-1) for value in (counts, probs)]
    return flat[0], flat[1], samples


@kernel("StatelessRandomBinomial", host=True, expensive=True)
def stateless_random_binomial(
    xp: ArrayNamespace,
    shape: Value,
    seed: Value,
    counts: Value,
    probs: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Draw the number of successes in `counts` trials of probability `probs`."""
    sizes, _ = _philox.output_shape(shape)
    flat_counts, flat_probs, samples = _parameters(sizes, counts, probs)
    generator = concrete(scrambled(xp, seed))
    drawn = binomial(generator, flat_counts, flat_probs, samples)
    return drawn.reshape(sizes).astype(dtype)


@kernel(
    "StatefulRandomBinomial", stateful=True, host=True, expensive=True, effects=("rng", "state")
)
def stateful_random_binomial(
    ctx: OpKernelContext,
    resource: Any,
    algorithm: Value,
    shape: Value,
    counts: Value,
    probs: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Draw the number of successes in `counts` trials of probability `probs`."""
    del ctx
    check_algorithm(algorithm)
    if int(algorithm) != 1:  # TensorFlow's kernel rejects auto, too
        raise InvalidArgumentError(f"Unsupported algorithm id: {int(algorithm)}")
    sizes, _ = _philox.output_shape(shape)
    flat_counts, flat_probs, samples = _parameters(sizes, counts, probs)
    outputs = flat_counts.size * _RESERVED * (samples + 3) // 4  # reserved by TensorFlow
    _, generator = advance(resource, outputs * _philox.RESERVED_PER_OUTPUT)
    drawn = binomial(generator, flat_counts, flat_probs, samples)
    return drawn.reshape(sizes).astype(dtype)
