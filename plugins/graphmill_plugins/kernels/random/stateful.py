"""Random ops with seed attrs: uniform, normal and truncated normal, shuffle, multinomial.

Semantics: tensorflow/core/kernels/random_op.cc, random_shuffle_op.cc, multinomial_op.cc,
tensorflow/core/util/guarded_philox_random.h. With a seed set, a node gives TensorFlow's own values,
call after call; with both seeds 0 it draws a seed from the system when the session makes it.
"""

from __future__ import annotations

import secrets
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.runtime.kernel import kernel
from graphmill_plugins.kernels.random import _philox

if TYPE_CHECKING:
    from graphmill.runtime.kernel import OpKernelConstruction
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Value


class GuardedPhilox:
    """The generator of one node; steps that run at once get disjoint runs of counters.

    Threads: `_lock` guards `_generator`.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        seed, seed2 = construction.attr("seed"), construction.attr("seed2")
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self._generator = _philox.seeded(seed, seed2)
        self._lock = threading.Lock()

    def reserve(self, counters: int) -> _philox.Philox:
        """Return the generator as it is now, and move on by `counters`."""
        with self._lock:
            generator = self._generator
            self._generator = generator.skip(counters)
        return generator

    def reserve_outputs(self, count: int) -> _philox.Philox:
        """Reserve what TensorFlow reserves for `count` outputs."""
        return self.reserve(count * _philox.RESERVED_PER_OUTPUT)


@kernel(
    "RandomUniform",
    "RandomStandardNormal",
    "TruncatedNormal",
    stateful=True,
    host=True,
    effects=("rng",),
)
class RandomFloatKernel:
    """Draw floats of one of the standard distributions."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)
        self._dtype = construction.attr("dtype")
        self._op = construction.op

    def __call__(self, ctx: OpKernelContext, shape: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        generator = self._source.reserve_outputs(count)
        if self._op == "TruncatedNormal":
            drawn = _philox.truncated_normal(generator, count, self._dtype)
        elif self._op == "RandomUniform":
            drawn = _philox.uniform(np, generator, count, self._dtype)
        else:
            drawn = _philox.normal(np, generator, count, self._dtype)
        return drawn.reshape(sizes)


@kernel("RandomUniformInt", stateful=True, host=True, effects=("rng",))
class RandomUniformIntKernel:
    """Draw integers of [minval, maxval)."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)
        self._dtype = construction.attr("Tout")

    def __call__(self, ctx: OpKernelContext, shape: Value, minval: Value, maxval: Value) -> Value:
        """Return a tensor of `shape`."""
        del ctx
        sizes, count = _philox.output_shape(shape)
        _philox.check_range(minval, maxval, count)
        if not count:
            return np.zeros(sizes, self._dtype)
        generator = self._source.reserve_outputs(count)
        drawn = _philox.integers(np, generator, count, self._dtype, minval, maxval)
        return drawn.reshape(sizes)


@kernel("RandomShuffle", stateful=True, host=True, effects=("rng",))
class RandomShuffleKernel:
    """Put the slices along the first axis in random order."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)

    def __call__(self, ctx: OpKernelContext, value: Value) -> Value:
        """Return the shuffled tensor."""
        del ctx
        if value.ndim == 0 or value.shape[0] <= 1:
            return value
        size = value.shape[0]
        generator = self._source.reserve((size - 1 + 3) // 4)
        return value[shuffled(generator, size)]


def shuffled(generator: _philox.Philox, size: int) -> Any:
    """Return the numbers from 0 to `size` - 1 in random order."""
    order = list(range(size))
    for place, sample in enumerate(_philox.samples(np, generator, size - 1).tolist()):
        other = place + sample % (size - place)
        order[place], order[other] = order[other], order[place]
    return np.array(order)


def multinomial(
    generator: _philox.Philox, logits: Any, num_samples: int, dtype: np.dtype[Any]
) -> Value:
    """Draw `num_samples` classes for each row of unnormalised log-probabilities."""
    if logits.ndim != 2:
        raise errors.InvalidArgumentError(
            f"logits should be a matrix, got shape {list(logits.shape)}"
        )
    rows, classes = logits.shape
    if num_samples < 0:
        raise errors.InvalidArgumentError(f"num_samples should be nonnegative, got {num_samples}")
    if rows and classes < 1:
        raise errors.InvalidArgumentError(f"num_classes should be positive, got {classes}")
    wide = logits.astype(np.float64)
    finite = np.isfinite(wide)
    peak = np.max(wide, axis=1, keepdims=True, initial=-np.inf, where=finite)
    weights = np.where(finite, np.exp(wide - peak), 0)
    totals = np.cumsum(weights, axis=1)
    unit = _philox.uniform(np, generator, rows * num_samples, np.dtype(np.float64))
    out = np.empty((rows, num_samples), dtype)
    for row, drawn in enumerate(unit.reshape(rows, num_samples)):
        out[row] = np.searchsorted(totals[row], drawn * totals[row, -1], side="right")
    return out


def sample_count(num_samples: Value) -> int:
    """Return the input num_samples, which must be a scalar, as an integer."""
    if np.ndim(num_samples) != 0:
        raise errors.InvalidArgumentError(
            f"num_samples should be a scalar, got shape {list(np.shape(num_samples))}"
        )
    return int(num_samples)


@kernel("Multinomial", stateful=True, host=True, effects=("rng",))
class MultinomialKernel:
    """Draw classes from rows of unnormalised log-probabilities."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._source = GuardedPhilox(construction)
        self._dtype = construction.attr("output_dtype")

    def __call__(self, ctx: OpKernelContext, logits: Value, num_samples: Value) -> Value:
        """Return (rows, num_samples) class numbers."""
        del ctx
        count = sample_count(num_samples)
        reserved = len(logits) * ((count + 3) // 4 * 4) * 2 if logits.ndim else 0
        generator = self._source.reserve_outputs(max(reserved, 0))
        return multinomial(generator, logits, count, self._dtype)
