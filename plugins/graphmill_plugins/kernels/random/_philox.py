"""Philox4x32-10, the counter-based generator of TensorFlow's random ops, and its distributions.

The algorithm is public (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). The
conversion of samples to values is that of tensorflow/core/lib/random/random_distributions.h, the
order of counters that of tensorflow/core/kernels/random_op_cpu.h. Unless noted otherwise, functions
work on NumPy and on `jax.numpy` with 64-bit types enabled, and give equal values for equal seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill_plugins._lazy_jax import lax
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._support import check_axis_count, check_size
from graphmill_plugins.kernels.random._float32_math import log, sine_and_cosine

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace, Value

_INT_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_MULTIPLIERS = tuple(map(np.uint64, _INT_MULTIPLIERS))
_BOTH_MULTIPLIERS = np.array(_MULTIPLIERS)[:, None]
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1
_MAX_PYTHON_COUNTERS = 4  # number of counters up to which Python integers are faster than NumPy
_MAX_SMALL_COUNTERS = 1 << 10  # number of counters up to which NumPy calls are mostly overhead
_MAX_FEW_GROUPS = 1 << 9  # groups of outputs up to which NumPy calls are mostly overhead
_CHUNK = 1 << 14  # counters whose results fit in a processor's cache
_MIN_STORED_PAIRS = 1 << 8  # less are computed again for each half in programs, which takes some µs
RESERVED_PER_OUTPUT = 256
"""Counters that TensorFlow reserves per output, even if it does not use them."""


@dataclass(frozen=True, slots=True)
class Philox:
    """A key and the next counter; `counter` is (low, high), each a `uint64` scalar or an int."""

    key: Any
    low: Any
    high: Any

    def skip(self, count: int) -> Philox:
        """Return the generator advanced by `count` counters, which must be less than 2**64."""
        if isinstance(self.low, int):
            total = (self.low | self.high << 64) + count
            return Philox(self.key, total & _MASK64, total >> 64 & _MASK64)
        low = self.low + np.uint64(count)
        return Philox(self.key, low, self.high + (low < self.low).astype(np.uint64))


def seeded(seed: int, seed2: int) -> Philox:
    """Return the generator of a stateful op with these two seed attrs."""
    return Philox(seed & _MASK64, 0, seed2 & _MASK64)


def _rounds(c: list[Any], k0: Any, k1: Any, xp: ArrayNamespace) -> list[Any]:
    """Apply the ten rounds to counters: four `uint64` arrays of 32-bit words; return the same."""
    for round_ in range(10):
        if round_:
            k0, k1 = (k0 + xp.uint64(_WEYL[0])) & _LOW, (k1 + xp.uint64(_WEYL[1])) & _LOW
        product0, product1 = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [
            (product1 >> _HALF) ^ c[1] ^ k0,
            product1 & _LOW,
            (product0 >> _HALF) ^ c[3] ^ k1,
            product0 & _LOW,
        ]
    return c


def _rounds_in_place(c: list[Any], k0: int, k1: int) -> list[Any]:
    """Apply the ten rounds in place with NumPy, so that the data stays in the cache."""
    c0, c1, c2, c3 = c
    product0, product1 = np.empty_like(c0), np.empty_like(c0)
    for _ in range(10):
        np.multiply(c0, _MULTIPLIERS[0], out=product0)
        np.multiply(c2, _MULTIPLIERS[1], out=product1)
        for high, product, odd, key in ((c0, product1, c1, k0), (c2, product0, c3, k1)):
            np.right_shift(product, _HALF, out=high)
            np.bitwise_xor(high, odd, out=high)
            np.bitwise_xor(high, np.uint64(key), out=high)
            np.bitwise_and(product, _LOW, out=odd)
        k0, k1 = k0 + _WEYL[0] & _MASK32, k1 + _WEYL[1] & _MASK32
    return c


def _pairs(xp: ArrayNamespace, generator: Philox, offsets: Value) -> Value:
    """Return the results of counters as `uint64` (…, 2): two samples each, the first the low half.

    They are packed in pairs because XLA repeats all rounds for each operand of a concatenation.
    """
    if xp is np and offsets.size <= _MAX_PYTHON_COUNTERS:
        return _pairs_in_python(generator, offsets)
    if xp is np and offsets.size <= _MAX_SMALL_COUNTERS:
        return _pairs_of_some(generator, offsets)
    low, high = xp.uint64(generator.low), xp.uint64(generator.high)
    first = low + offsets
    second = high + (first < low).astype(np.uint64)
    counter = [first & _LOW, first >> _HALF, second & _LOW, second >> _HALF]
    if xp is np:
        key = int(generator.key)
        words = _rounds_in_place(counter, key & _MASK32, key >> 32)
    else:
        key = xp.uint64(generator.key)
        words = _rounds(counter, key & _LOW, key >> _HALF, xp)
    pairs = xp.stack([words[0] | words[1] << _HALF, words[2] | words[3] << _HALF], axis=-1)
    return pairs if xp is np or len(pairs) < _MIN_STORED_PAIRS else _stored(pairs)


def _stored(pairs: Value) -> Value:
    """Keep XLA:CPU from computing all rounds again for each half of a pair that is read.

    Few pairs are computed again: XLA emits small loops as functions, which hold no barrier.
    """
    stored: Value = lax.platform_dependent(pairs, cpu=lax.optimization_barrier, default=lambda x: x)
    return stored


@lru_cache(maxsize=64)
def _round_keys(key: int) -> Value:
    k0, k1 = key & _MASK32, key >> 32
    keys = [
        [(k0 + round_ * _WEYL[0]) & _MASK32, (k1 + round_ * _WEYL[1]) & _MASK32]
        for round_ in range(10)
    ]
    return np.array(keys, np.uint32)[..., None]


def _pairs_of_some(generator: Philox, offsets: Value) -> Value:
    """Return the pairs of up to about a thousand counters, with few NumPy calls.

    Each round multiplies two of a counter's four words, the rows of `even`. The halves of the
    products, in reverse order, are the words of the next round.
    """
    counters = np.empty((offsets.size, 2), np.uint64)
    low = np.add(offsets.reshape(-1), np.uint64(generator.low), out=counters[:, 0])
    np.add(low < np.uint64(generator.low), np.uint64(generator.high), out=counters[:, 1])
    words = counters.view(np.uint32)
    even, odd = words[:, 0::2].T.copy(), words[:, 1::2].T
    products = np.empty((2, *even.shape), np.uint64)  # of this round and of the previous one
    halves = products.view(np.uint32).reshape(*products.shape, 2)[:, ::-1]
    for round_, keys in enumerate(_round_keys(int(generator.key))):
        np.multiply(even, _BOTH_MULTIPLIERS, out=products[round_ & 1])
        np.bitwise_xor(halves[round_ & 1, ..., 1], odd, out=even)
        np.bitwise_xor(even, keys, out=even)
        odd = halves[round_ & 1, ..., 0]
    words[:, 0::2], words[:, 1::2] = even.T, odd.T
    return counters.reshape(*offsets.shape, 2)


def _pairs_in_python(generator: Philox, offsets: Value) -> Value:
    """Return the pairs of a few counters with Python integers, faster than with NumPy calls."""
    counter = int(generator.low) | int(generator.high) << 64
    key0, key1 = int(generator.key) & _MASK32, int(generator.key) >> 32
    pairs = [_pair(counter + offset, key0, key1) for offset in offsets.reshape(-1).tolist()]
    return np.array(pairs, np.uint64).reshape(*offsets.shape, 2)


def _pair(counter: int, k0: int, k1: int) -> tuple[int, int]:
    c0, c1 = counter & _MASK32, counter >> 32 & _MASK32
    c2, c3 = counter >> 64 & _MASK32, counter >> 96 & _MASK32
    for _ in range(10):
        product0, product1 = c0 * _INT_MULTIPLIERS[0], c2 * _INT_MULTIPLIERS[1]
        c0, c1 = product1 >> 32 ^ c1 ^ k0, product1 & _MASK32
        c2, c3 = product0 >> 32 ^ c3 ^ k1, product0 & _MASK32
        k0, k1 = k0 + _WEYL[0] & _MASK32, k1 + _WEYL[1] & _MASK32
    return c0 | c1 << 32, c2 | c3 << 32


def blocks(xp: ArrayNamespace, generator: Philox, offsets: Value) -> Value:
    """Return the uint32 results (…, 4) of counters at `offsets` (uint64) from `generator`."""
    return _pairs(xp, generator, offsets).view(np.uint32)


def _converted(
    xp: ArrayNamespace,
    generator: Philox,
    count: int,
    dtype: np.dtype[Any],
    convert: Callable[[Value], Value],
) -> Value:
    """Return `count` values, which `convert` computes from pairs of samples.

    A counter yields two values of a 64-bit type, and four of any other type.
    """
    size = 2 if dtype.itemsize == 8 else 4
    groups = -(-count // size)
    if xp is not np or groups <= _CHUNK:
        pairs = _pairs(xp, generator, xp.arange(groups, dtype=np.uint64))
        return convert(pairs).reshape(-1)[:count]
    out = np.empty((groups, size), dtype)

    def draw(first: int) -> None:
        last = min(first + _CHUNK, groups)
        pairs = _pairs(np, generator, np.arange(first, last, dtype=np.uint64))
        out[first:last] = convert(pairs).reshape(-1, size)

    HELPERS.run([partial(draw, first) for first in range(0, groups, _CHUNK)])
    return out.reshape(-1)[:count]


def samples(xp: ArrayNamespace, generator: Philox, count: int) -> Value:
    """Return the first `count` 32-bit samples as a vector."""
    dtype = np.dtype(np.uint32)
    return _converted(xp, generator, count, dtype, lambda pairs: pairs.view(np.uint32))


def _unit_float32(bits: Value) -> Value:
    """Map 32-bit samples to [0, 1): use 23 bits as the mantissa of [1, 2), and subtract one."""
    one = np.uint32(0x3F800000)
    return (bits & np.uint32(0x7FFFFF) | one).view(np.float32) - np.float32(1)


def _unit_float64(pairs: Value) -> Value:
    """Map pairs of samples to [0, 1): the high half of the mantissa comes first."""
    high = (pairs & np.uint64(0xFFFFF)) << _HALF
    return (high | pairs >> _HALF | np.uint64(0x3FF << 52)).view(np.float64) - np.float64(1)


def _unit_narrow(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map samples to [0, 1) of a 16-bit float type, using one bit per mantissa bit."""
    mantissa = 10 if dtype == np.float16 else 7
    exact = (bits & np.uint32((1 << mantissa) - 1)).astype(np.float32)
    return (exact * np.float32(2.0**-mantissa)).astype(dtype)


def unit_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples, a row per counter, to floats of [0, 1) as TensorFlow does."""
    if dtype == np.float64:
        return _unit_float64(bits.view(np.uint64))
    return _unit_float32(bits) if dtype == np.float32 else _unit_narrow(bits, dtype)


def uniform(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of [0, 1)."""
    return _converted(
        xp, generator, count, dtype, lambda pairs: unit_of(pairs.view(np.uint32), dtype)
    )


def full_integers(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` integers over the whole range of a 32- or 64-bit type."""
    bits = np.uint64 if dtype.itemsize == 8 else np.uint32
    return _converted(xp, generator, count, dtype, lambda pairs: pairs.view(bits).astype(dtype))


def integers(
    xp: ArrayNamespace,
    generator: Philox,
    count: int,
    dtype: np.dtype[Any],
    low: Value,
    high: Value,
) -> Value:
    """Return `count` integers of [low, high), reduced by modulo as in TensorFlow."""
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    start = xp.asarray(low).astype(unsigned)
    span = xp.asarray(high).astype(unsigned) - start
    bits = full_integers(xp, generator, count, unsigned)
    return (start + bits % span).astype(dtype)


def _box_muller(xp: ArrayNamespace, pairs: Value) -> Value:
    """Map (…, n) pairs of samples to (…, 2 n) normal float32 values."""
    first = xp.maximum(_unit_float32((pairs & _LOW).astype(np.uint32)), np.float32(1e-7))
    second = _unit_float32((pairs >> _HALF).astype(np.uint32))
    angle = (second.astype(np.float64) * (2 * np.pi)).astype(np.float32)
    radius = xp.sqrt(np.float32(-2) * log(xp, first))
    sine, cosine = ((part * radius).view(np.uint32) for part in sine_and_cosine(xp, angle))
    return (sine.astype(np.uint64) | cosine.astype(np.uint64) << _HALF).view(np.float32)


def _box_muller_double(xp: ArrayNamespace, pairs: Value) -> Value:
    """Map (…, 2) pairs of samples to (…, 2) normal float64 values."""
    unit = _unit_float64(pairs)
    first = xp.maximum(unit[..., 0], np.float64(1e-7))
    angle = 2 * np.pi * unit[..., 1]
    radius = xp.sqrt(-2 * xp.log(first))
    return xp.stack([xp.sin(angle) * radius, xp.cos(angle) * radius], axis=-1)


def _normal_of_pairs(xp: ArrayNamespace, pairs: Value, dtype: np.dtype[Any]) -> Value:
    if dtype == np.float64:
        return _box_muller_double(xp, pairs)
    return _box_muller(xp, pairs).astype(dtype)


def normal(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of the standard normal distribution."""
    return _converted(xp, generator, count, dtype, lambda pairs: _normal_of_pairs(xp, pairs, dtype))


def normal_at(xp: ArrayNamespace, generator: Philox, offsets: Value, dtype: np.dtype[Any]) -> Value:
    """Return the normal values of each counter (n,) at `offsets`: (n, 2) float64 or (n, 4)."""
    return _normal_of_pairs(xp, _pairs(xp, generator, offsets), dtype)


def normal_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples, a row per counter, to normal values as TensorFlow does (NumPy only)."""
    return _normal_of_pairs(np, bits.view(np.uint64), dtype)


def truncated_normal(generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of the standard normal distribution truncated at 2 (NumPy only).

    Each group of outputs (two for float64, else four) has its own range of counters, from which it
    takes samples until all its outputs are within the bound.
    """
    size = 2 if dtype == np.float64 else 4
    groups = -(-count // size)
    out = np.empty((groups, size), np.float64 if size == 2 else np.float32)

    def draw(first: int) -> None:
        _fill_truncated(generator, first, out[first : first + _CHUNK])

    if groups <= _CHUNK:
        draw(0)
    else:
        HELPERS.run([partial(draw, first) for first in range(0, groups, _CHUNK)])
    return out.reshape(-1)[:count].astype(dtype, copy=False)


def _fill_truncated(generator: Philox, first: int, out: Value) -> None:
    """Fill the groups of outputs (groups, size), starting at index `first`."""
    groups, size = out.shape
    stride = np.uint64(size * RESERVED_PER_OUTPUT // 4)
    starts = np.arange(first, first + groups, dtype=np.uint64) * stride
    if groups > _MAX_FEW_GROUPS:
        _fill_by_counter(generator, starts, out)
        return
    # Two counters are enough for nearly all groups.
    counters = starts[:, None] + np.arange(2, dtype=np.uint64)
    values = normal_of(blocks(np, generator, counters).reshape(-1, 4), out.dtype)
    values = values.reshape(groups, 2 * size)
    is_rejected = np.abs(values) >= 2
    order = np.argsort(is_rejected, axis=1, kind="stable")[:, :size]
    out[:] = np.take_along_axis(values, order, axis=1)
    incomplete = np.flatnonzero(np.add.reduce(is_rejected, axis=1) > size)
    if incomplete.size:
        left = np.empty((len(incomplete), size), out.dtype)
        _fill_by_counter(generator, starts[incomplete], left)
        out[incomplete] = left


def _fill_by_counter(generator: Philox, starts: Value, out: Value) -> None:
    """Fill groups of outputs from the counters that begin at `starts`, one counter at a time."""
    size = out.shape[1]
    # Most groups are complete with the first counter.
    values = out[:] = normal_of(blocks(np, generator, starts), out.dtype)
    is_accepted = np.abs(values) < 2
    pending = np.flatnonzero(~np.logical_and.reduce(is_accepted.T))
    values, is_accepted = values[pending], is_accepted[pending]
    filled = np.zeros(len(pending), np.intp)
    for round_ in range(1, RESERVED_PER_OUTPUT + 1):
        for value, accepted in zip(values.T, is_accepted.T, strict=True):
            fits = np.flatnonzero(accepted & (filled < size))
            out[pending[fits], filled[fits]] = value[fits]
            filled[fits] += 1
        is_incomplete = filled < size
        pending, filled = pending[is_incomplete], filled[is_incomplete]
        if not pending.size or round_ == RESERVED_PER_OUTPUT:
            break
        values = normal_of(blocks(np, generator, starts[pending] + np.uint64(round_)), out.dtype)
        is_accepted = np.abs(values) < 2


def check_range(low: Value, high: Value, count: int) -> None:
    """Raise InvalidArgumentError unless both are scalars and low < high, or nothing is drawn."""
    for name, value in (("minval", low), ("maxval", high)):
        if np.ndim(value) != 0:
            raise errors.InvalidArgumentError(
                f"{name} must be 0-D, got shape {list(np.shape(value))}"
            )
    if count and isinstance(low, (np.ndarray, np.generic)) and not low < high:
        raise errors.InvalidArgumentError(f"Need minval < maxval, got {low} >= {high}")


def output_shape(shape: Value) -> tuple[tuple[int, ...], int]:
    """Return a shape input as a tuple, and its number of elements.

    Raises:
        InvalidArgumentError: it is not a vector of sizes.
        ResourceExhaustedError: the output does not fit into memory.
    """
    array = np.asarray(shape)
    if array.ndim != 1:
        raise errors.InvalidArgumentError(
            f"shape must be a vector of {{int32,int64}}, got shape {list(array.shape)}"
        )
    check_axis_count(array, "shape")
    sizes = tuple(array.tolist())
    if min(sizes, default=0) < 0:
        raise errors.InvalidArgumentError(f"shape must have non-negative sizes, got {list(sizes)}")
    check_size(sizes, itemsize=4)
    return sizes, math.prod(sizes)


INTEGER_TYPES = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)
