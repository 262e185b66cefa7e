"""Rejection sampling of gamma and Poisson values; NumPy only.

Semantics: tensorflow/core/kernels/random_op.cc, stateless_random_gamma_op.cc, random_poisson_op.cc.
The methods are public: Marsaglia and Tsang (2000) for gamma, Knuth and Hörmann (1993) for Poisson.
Each output has its own range of counters, so all outputs are drawn in one vectorized loop, which
repeats those that were rejected with their next samples.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Value


_DOUBLE = np.dtype(np.float64)
_GROUP = 2  # float64 values per counter
_OUTPUT_SIZE = 160  # bytes of temporary arrays for each output
_PAIRS, _MAX_PAIRS = 1 << 9, 6
"""How many pairs of samples are drawn at once, of all outputs together, and of each."""


class Lanes:
    """The generators of many outputs, each with its own next counter."""

    def __init__(self, generator: _philox.Philox, outputs: Any, stride: int) -> None:
        self._generator = generator
        self._next = outputs.astype(np.uint64) * np.uint64(stride)

    def pairs(self, rows: Any) -> Any:
        """Return the next pairs of float64 of [0, 1) of each output in `rows`: (rows, n, 2).

        TensorFlow takes the second number of each pair first. Few outputs have several pairs each.
        """
        check_cancelled()
        count = min(max(_PAIRS // rows.size, 1), _MAX_PAIRS)
        counters = self._next[rows][:, None] + np.arange(count, dtype=np.uint64)
        self._next[rows] += np.uint64(count)
        return _philox.unit_of(_philox.blocks(np, self._generator, counters), _DOUBLE)

    def bits(self, rows: Any) -> Any:
        """Return the next four 32-bit samples of each output in `rows`."""
        check_cancelled()
        drawn = _philox.blocks(np, self._generator, self._next[rows])
        self._next[rows] += np.uint64(1)
        return drawn


class Buffer:
    """Buffered values of a distribution for many outputs; each group is used in reverse order."""

    def __init__(self, lanes: Lanes, count: int, convert: Callable[[Any], Any]) -> None:
        self._lanes = lanes
        self._convert = convert
        self._values = np.zeros((count, _GROUP))
        self._remaining = np.zeros(count, np.intp)

    def take(self, rows: Any) -> Any:
        """Return the next value of each output in `rows`."""
        remaining = self._remaining[rows]
        is_empty = remaining == 0
        if is_empty.any():
            empty = rows[is_empty]
            self._values[empty] = self._convert(self._lanes.bits(empty))
            remaining[is_empty] = _GROUP
        remaining -= 1
        self._remaining[rows] = remaining
        return self._values.ravel().take(rows * _GROUP + remaining)


def gamma(generator: _philox.Philox, alpha: Value, samples: int) -> Value:
    """Return `samples` gamma values per element of `alpha`, as float64 (samples, alphas).

    For an alpha of one they are exponential values.
    """
    check_size((alpha.size, samples), itemsize=_OUTPUT_SIZE)
    outputs = np.arange(alpha.size * samples)
    lanes = Lanes(generator, outputs, _philox.RESERVED_PER_OUTPUT)
    shape = np.repeat(alpha.astype(np.float64), samples)
    out = np.empty(outputs.size)
    ones = outputs[shape == 1]
    out[ones] = -np.log1p(-_philox.unit_of(lanes.bits(ones), _DOUBLE)[:, -1])
    is_possible = shape + np.where(shape < 1, 2 / 3, -1 / 3) > 0  # False for NaN
    out[~is_possible] = np.nan
    _draw_gamma(lanes, shape, out, outputs[is_possible & (shape != 1)])
    return out.reshape(alpha.size, samples).T


def _draw_gamma(lanes: Lanes, shape: Any, out: Any, pending: Any) -> None:
    normals = Buffer(lanes, shape.size, lambda bits: _philox.normal_of(bits, _DOUBLE))
    uniforms = Buffer(lanes, shape.size, lambda bits: _philox.unit_of(bits, _DOUBLE))
    while pending.size:
        check_cancelled()
        pending = _try_gamma(normals, uniforms, shape, out, pending)


def _try_gamma(normals: Buffer, uniforms: Buffer, shape: Any, out: Any, outputs: Any) -> Any:
    """Make one attempt for each output; return the rejected outputs."""
    alpha = shape[outputs]
    is_small = alpha < 1
    d = alpha + np.where(is_small, 2 / 3, -1 / 3)
    x = normals.take(outputs)
    v = 1 + 1 / 3 / np.sqrt(d) * x
    is_accepted = v > 0
    (rows,) = is_accepted.nonzero()
    x, v, d = x[rows], v[rows], d[rows]
    v = v * v * v
    u = uniforms.take(outputs[rows])
    square = x * x
    passes = u < 1 - 0.0331 * square * square
    (rest,) = (~passes).nonzero()  # few: the exact test
    w = v[rest]
    passes[rest] = np.log(u[rest]) < 0.5 * square[rest] + d[rest] * (1 - w + np.log(w))
    is_accepted[rows[~passes]] = False
    drawn = outputs[is_accepted]
    out[drawn] = (d * v)[passes]
    small = drawn[is_small[is_accepted]]
    out[small] *= np.power(uniforms.take(small), 1 / shape[small])
    return outputs[~is_accepted]


def poisson(generator: _philox.Philox, rate: Value, samples: int) -> Value:
    """Return `samples` Poisson values per element of `rate`, as float64 (samples, rates).

    As in TensorFlow, they are 0 for a negative rate, and the rate itself for NaN and infinity.
    """
    check_size((rate.size, samples), itemsize=_OUTPUT_SIZE)
    outputs = np.arange(rate.size * samples)
    lanes = Lanes(generator, outputs, _philox.RESERVED_PER_OUTPUT)
    rates = np.repeat(rate.astype(np.float64), samples)
    out = np.full(outputs.size, np.nan)
    is_finite = np.isfinite(rates)
    out[np.isposinf(rates)] = np.inf
    out[np.isneginf(rates)] = 0
    _count_products(lanes, rates, out, outputs[is_finite & (rates < 10)])
    _transformed_rejection(lanes, rates, out, outputs[is_finite & (rates >= 10)])
    return out.reshape(rate.size, samples).T


def _count_products(lanes: Lanes, rates: Any, out: Any, pending: Any) -> None:
    """Draw by counting the uniform values whose product stays above exp(-rate) (Knuth)."""
    threshold = np.exp(-rates)
    product = np.ones(rates.size)
    out[pending] = 0
    while pending.size:
        products = lanes.pairs(pending)[..., ::-1].reshape(pending.size, -1)
        products[:, 0] *= product[pending]
        np.multiply.accumulate(products, axis=1, out=products)
        is_above = products > threshold[pending, None]
        out[pending] += np.count_nonzero(is_above, axis=1)
        product[pending] = products[:, -1]
        pending = pending[is_above[:, -1]]


def _transformed_rejection(lanes: Lanes, rates: Any, out: Any, pending: Any) -> None:
    """Draw by transformed rejection, for large rates (Hörmann)."""
    b = 0.931 + 2.53 * np.sqrt(rates)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)

    def attempt(outputs: Any, u: Any, v: Any) -> tuple[Any, Any]:
        shifted = 0.5 - np.abs(u)
        k = np.floor((2 * a[outputs] / shifted + b[outputs]) * u + rates[outputs] + 0.43)
        is_accepted = (shifted >= 0.07) & (v <= 0.9277 - 3.6224 / (b[outputs] - 2))
        is_possible = ~((k < 0) | ((shifted < 0.013) & (v > shifted)))
        rest = (is_possible & ~is_accepted).nonzero()  # few: the exact test
        one, shifted, kk = outputs[rest[0], 0], shifted[rest], k[rest]
        s = np.log(v[rest] * inverse[one] / (a[one] / (shifted * shifted) + b[one]))
        is_accepted[rest] = s <= -rates[one] + kk * np.log(rates[one]) - _log_gamma(kk + 1)
        return k, is_accepted

    draw_first_accepted(lanes, out, pending, attempt)


def draw_first_accepted(
    lanes: Lanes, out: Any, pending: Any, attempt: Callable[[Any, Any, Any], tuple[Any, Any]]
) -> None:
    """Store the first accepted value of each pending output.

    Args:
        lanes: the generators of the outputs.
        out: where values are stored.
        pending: indices of outputs.
        attempt: returns the values of outputs (n, 1), and whether they are accepted, from numbers
            of [-0.5, 0.5) and of [0, 1): both (n, attempts).
    """
    while pending.size:
        pairs = lanes.pairs(pending)
        values, is_accepted = attempt(pending[:, None], pairs[..., 1] - 0.5, pairs[..., 0])
        first = np.argmax(is_accepted, axis=1)
        rows = np.arange(pending.size)
        is_done = is_accepted[rows, first]
        out[pending[is_done]] = values[rows, first][is_done]
        pending = pending[~is_done]


def _log_gamma(values: Any) -> Any:
    return np.array([math.lgamma(value) for value in cancellable(values.tolist())], values.dtype)
