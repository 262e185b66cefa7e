"""Stateless random ops: the seed, or key and counter, is an input.

Semantics: tensorflow/core/kernels/stateless_random_ops.cc, stateless_random_ops_v2.cc. They are
pure functions: equal inputs give equal values on all backends, and in TensorFlow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill_plugins.kernels.random import _philox
from graphmill_plugins.kernels.random._shuffle import shuffled
from graphmill_plugins.kernels.random.stateful import multinomial, sample_count

if TYPE_CHECKING:
    from graphmill.spi import ArrayNamespace, Value

_KEY = 0x02461E293EC8F720  # the key that scrambles seeds
_PHILOX, _AUTO = 1, 3


def scrambled(xp: ArrayNamespace, seed: Value) -> _philox.Philox:
    """Return the generator for a seed of two integers, which Philox itself scrambles."""
    if np.shape(seed) != (2,):
        raise errors.InvalidArgumentError(f"seed must have shape [2], not {list(np.shape(seed))}")
    words = seed.astype(np.uint64)
    mixed = _philox.blocks(
        xp, _philox.Philox(np.uint64(_KEY), words[0], words[1]), xp.zeros((1,), np.uint64)
    )[0].astype(np.uint64)
    half = np.uint64(32)
    return _philox.Philox(mixed[0] | mixed[1] << half, xp.uint64(0), mixed[2] | mixed[3] << half)


def from_key(xp: ArrayNamespace, key: Value, counter: Value, alg: Value) -> _philox.Philox:
    """Return the generator of a key and counter for the algorithm `alg`.

    Raises:
        InvalidArgumentError: a shape is wrong, or the algorithm is not Philox; ThreeFry is not
            supported, as in TensorFlow without XLA.
    """
    if np.ndim(alg) != 0:
        raise errors.InvalidArgumentError(f"algorithm must be of shape [], not {np.shape(alg)}")
    if int(alg) not in (_PHILOX, _AUTO):
        raise errors.InvalidArgumentError(
            f"Unsupported algorithm id: {int(alg)}; expected Philox (1) or auto (3)"
        )
    if np.shape(key) != (1,):
        raise errors.InvalidArgumentError(f"key must have shape [1], not {list(np.shape(key))}")
    if np.ndim(counter) != 1 or counter.shape[0] < 2:
        raise errors.InvalidArgumentError(
            f"counter must be a vector of at least 2 elements, got shape {list(np.shape(counter))}"
        )
    return _philox.Philox(xp.asarray(key)[0], xp.asarray(counter)[0], xp.asarray(counter)[1])


@kernel("StatelessRandomUniform", static=("shape",))
def stateless_uniform(xp: ArrayNamespace, shape: Value, seed: Value, dtype: np.dtype[Any]) -> Value:
    """Return floats of [0, 1)."""
    sizes, count = _philox.output_shape(shape)
    return _philox.uniform(xp, scrambled(xp, seed), count, dtype).reshape(sizes)


@kernel("StatelessRandomUniformV2", static=("shape", "alg"))
def stateless_uniform_v2(
    xp: ArrayNamespace,
    shape: Value,
    key: Value,
    counter: Value,
    alg: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return floats of [0, 1)."""
    sizes, count = _philox.output_shape(shape)
    return _philox.uniform(xp, from_key(xp, key, counter, alg), count, dtype).reshape(sizes)


@kernel("StatelessRandomNormal", static=("shape",))
def stateless_normal(xp: ArrayNamespace, shape: Value, seed: Value, dtype: np.dtype[Any]) -> Value:
    """Return floats of the standard normal distribution."""
    sizes, count = _philox.output_shape(shape)
    return _philox.normal(xp, scrambled(xp, seed), count, dtype).reshape(sizes)


@kernel("StatelessRandomNormalV2", static=("shape", "alg"))
def stateless_normal_v2(
    xp: ArrayNamespace,
    shape: Value,
    key: Value,
    counter: Value,
    alg: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return floats of the standard normal distribution."""
    sizes, count = _philox.output_shape(shape)
    return _philox.normal(xp, from_key(xp, key, counter, alg), count, dtype).reshape(sizes)


def concrete(generator: _philox.Philox) -> _philox.Philox:
    """Return a generator whose key and counter are Python integers."""
    return _philox.Philox(int(generator.key), int(generator.low), int(generator.high))


@kernel("StatelessTruncatedNormal", host=True)
def stateless_truncated_normal(
    xp: ArrayNamespace, shape: Value, seed: Value, dtype: np.dtype[Any]
) -> Value:
    """Return floats of the standard normal distribution truncated at 2."""
    sizes, count = _philox.output_shape(shape)
    generator = concrete(scrambled(xp, seed))
    return _philox.truncated_normal(generator, count, dtype).reshape(sizes)


@kernel("StatelessTruncatedNormalV2", host=True)
def stateless_truncated_normal_v2(
    xp: ArrayNamespace,
    shape: Value,
    key: Value,
    counter: Value,
    alg: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return floats of the standard normal distribution truncated at 2."""
    sizes, count = _philox.output_shape(shape)
    generator = concrete(from_key(xp, key, counter, alg))
    return _philox.truncated_normal(generator, count, dtype).reshape(sizes)


def _integers(
    xp: ArrayNamespace,
    generator: _philox.Philox,
    shape: Value,
    low: Value,
    high: Value,
    dtype: np.dtype[Any],
) -> Value:
    sizes, count = _philox.output_shape(shape)
    _philox.check_range(low, high, count)
    if not count:
        return xp.zeros(sizes, dtype)
    return _philox.integers(xp, generator, count, dtype, low, high).reshape(sizes)


@kernel("StatelessRandomUniformInt", static=("shape",))
def stateless_uniform_int(
    xp: ArrayNamespace,
    shape: Value,
    seed: Value,
    minval: Value,
    maxval: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return integers of [minval, maxval)."""
    return _integers(xp, scrambled(xp, seed), shape, minval, maxval, dtype)


@kernel("StatelessRandomUniformIntV2", static=("shape", "alg"))
def stateless_uniform_int_v2(
    xp: ArrayNamespace,
    shape: Value,
    key: Value,
    counter: Value,
    alg: Value,
    minval: Value,
    maxval: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return integers of [minval, maxval)."""
    return _integers(xp, from_key(xp, key, counter, alg), shape, minval, maxval, dtype)


@kernel("StatelessRandomUniformFullInt", static=("shape",))
def stateless_full_int(
    xp: ArrayNamespace, shape: Value, seed: Value, dtype: np.dtype[Any]
) -> Value:
    """Return integers over the whole range of the type."""
    if seed.dtype.kind == "u":
        raise errors.InvalidArgumentError(f"Invalid seed type: {seed.dtype.name}")
    sizes, count = _philox.output_shape(shape)
    return _philox.full_integers(xp, scrambled(xp, seed), count, dtype).reshape(sizes)


@kernel("StatelessRandomUniformFullIntV2", static=("shape", "alg"))
def stateless_full_int_v2(
    xp: ArrayNamespace,
    shape: Value,
    key: Value,
    counter: Value,
    alg: Value,
    dtype: np.dtype[Any],
) -> Value:
    """Return integers over the whole range of the type."""
    sizes, count = _philox.output_shape(shape)
    generator = from_key(xp, key, counter, alg)
    return _philox.full_integers(xp, generator, count, dtype).reshape(sizes)


def _key_and_counter(xp: ArrayNamespace, seed: Value) -> tuple[Value, Value]:
    generator = scrambled(xp, seed)
    counter = xp.stack([xp.asarray(generator.low), xp.asarray(generator.high)])
    return xp.asarray(generator.key).reshape(1), counter


@kernel("StatelessRandomGetKeyCounter")
def get_key_counter(xp: ArrayNamespace, seed: Value) -> tuple[Value, Value]:
    """Return key and counter for a seed."""
    return _key_and_counter(xp, seed)


@kernel("StatelessRandomGetKeyCounterAlg")
def get_key_counter_alg(xp: ArrayNamespace, seed: Value) -> tuple[Value, Value, Value]:
    """Return key, counter and algorithm (Philox) for a seed."""
    return (*_key_and_counter(xp, seed), np.int32(_PHILOX))


@kernel("StatelessRandomGetAlg")
def get_alg(xp: ArrayNamespace) -> Value:
    """Return the algorithm of the device, which is always Philox."""
    del xp
    return np.int32(_PHILOX)


@kernel("StatelessMultinomial", host=True)
def stateless_multinomial(
    xp: ArrayNamespace,
    logits: Value,
    num_samples: Value,
    seed: Value,
    output_dtype: np.dtype[Any],
) -> Value:
    """Draw classes from rows of unnormalized log-probabilities."""
    generator = concrete(scrambled(xp, seed))
    return multinomial(xp, generator, logits, sample_count(num_samples), output_dtype)


@kernel("StatelessShuffle", host=True)
def stateless_shuffle(
    xp: ArrayNamespace, value: Value, key: Value, counter: Value, alg: Value
) -> Value:
    """Shuffle the slices along the first axis."""
    generator = concrete(from_key(xp, key, counter, alg))
    if value.ndim == 0 or value.shape[0] <= 1:
        return value
    return value[shuffled(generator, value.shape[0])]
