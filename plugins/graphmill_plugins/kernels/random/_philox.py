"""Philox4x32-10, the counter-based generator of TensorFlow's random ops, and its distributions.

The algorithm is public (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). How
samples become values: tensorflow/core/lib/random/random_distributions.h; in what order counters are
used: tensorflow/core/kernels/random_op_cpu.h. Everything works on NumPy and on `jax.numpy` with
64-bit types switched on, so that the same seed gives the same values on each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._support import check_size
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
_FEW = 4  # counters for which Python's numbers are faster than NumPy's arrays
_SOME = 1 << 10  # counters for which the overhead of NumPy calls dominates
_PIECE = 1 << 14  # counters whose results fit in a processor's cache
RESERVED_PER_OUTPUT = 256
"""Counters that TensorFlow sets aside for each output, however many it uses."""


@dataclass(frozen=True, slots=True)
class Philox:
    """A key and the next counter; `counter` is (low, high), each a `uint64` scalar or an int."""

    key: Any
    low: Any
    high: Any

    def skip(self, count: int) -> Philox:
        """Return the generator `count` counters further on; fewer than 2**64 of them."""
        if isinstance(self.low, int):
            total = (self.low | self.high << 64) + count
            return Philox(self.key, total & _MASK64, total >> 64 & _MASK64)
        low = self.low + np.uint64(count)
        return Philox(self.key, low, self.high + (low < self.low).astype(np.uint64))


def seeded(seed: int, seed2: int) -> Philox:
    """Return the generator of a stateful op with these two seed attrs."""
    return Philox(seed & _MASK64, 0, seed2 & _MASK64)


def _rounds(c: list[Any], k0: Any, k1: Any, xp: ArrayNamespace) -> list[Any]:
    """Return the four 32-bit results, in `uint64` arrays, of counters `c` (four such arrays)."""
    for turn in range(10):
        if turn:
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
    """Do the same with NumPy in the memory of the counters, which stays in the cache."""
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
    """Return the results of counters as `uint64` (…, 2): the first of two samples is the low half.

    Two by two, because a compiler computes all rounds again for each part that is put together.
    """
    if xp is np and offsets.size <= _FEW:
        return _few_pairs(generator, offsets)
    if xp is np and offsets.size <= _SOME:
        return _pairs_in_few_calls(generator, offsets)
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
    return xp.stack([words[0] | words[1] << _HALF, words[2] | words[3] << _HALF], axis=-1)


@lru_cache(maxsize=64)
def _keys_of_turns(key: int) -> Value:
    k0, k1 = key & _MASK32, key >> 32
    keys = [
        [(k0 + turn * _WEYL[0]) & _MASK32, (k1 + turn * _WEYL[1]) & _MASK32] for turn in range(10)
    ]
    return np.array(keys, np.uint32)[..., None]


def _pairs_in_few_calls(generator: Philox, offsets: Value) -> Value:
    """Do the same for some hundred counters, where it counts how often NumPy is called.

    Two of a counter's four words are multiplied: `even` has them as rows. The halves of the
    products, seen the other way around, are the next ones.
    """
    counters = np.empty((offsets.size, 2), np.uint64)
    low = np.add(offsets.reshape(-1), np.uint64(generator.low), out=counters[:, 0])
    np.add(low < np.uint64(generator.low), np.uint64(generator.high), out=counters[:, 1])
    words = counters.view(np.uint32)
    even, odd = words[:, 0::2].T.copy(), words[:, 1::2].T
    products = np.empty((2, *even.shape), np.uint64)  # of this turn and of the one before
    halves = products.view(np.uint32).reshape(*products.shape, 2)[:, ::-1]
    for turn, keys in enumerate(_keys_of_turns(int(generator.key))):
        np.multiply(even, _BOTH_MULTIPLIERS, out=products[turn & 1])
        np.bitwise_xor(halves[turn & 1, ..., 1], odd, out=even)
        np.bitwise_xor(even, keys, out=even)
        odd = halves[turn & 1, ..., 0]
    words[:, 0::2], words[:, 1::2] = even.T, odd.T
    return counters.reshape(*offsets.shape, 2)


def _few_pairs(generator: Philox, offsets: Value) -> Value:
    """Do the same for a few counters with Python's integers, which is faster than NumPy calls."""
    counter = int(generator.low) | int(generator.high) << 64
    key0, key1 = int(generator.key) & _MASK32, int(generator.key) >> 32
    found = [_pair(counter + offset, key0, key1) for offset in offsets.reshape(-1).tolist()]
    return np.array(found, np.uint64).reshape(*offsets.shape, 2)


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
    """Return the uint32 results (…, 4) of the counters `offsets` (uint64) behind `generator`."""
    return _pairs(xp, generator, offsets).view(np.uint32)


def _drawn(
    xp: ArrayNamespace,
    generator: Philox,
    count: int,
    dtype: np.dtype[Any],
    convert: Callable[[Value], Value],
) -> Value:
    """Return `count` values of a type; `convert` makes them of pairs of samples.

    A counter gives two of 64 bits, and four of all others.
    """
    size = 2 if dtype.itemsize == 8 else 4
    groups = -(-count // size)
    if xp is not np or groups <= _PIECE:
        pairs = _pairs(xp, generator, xp.arange(groups, dtype=np.uint64))
        return convert(pairs).reshape(-1)[:count]
    out = np.empty((groups, size), dtype)

    def draw(first: int) -> None:
        last = min(first + _PIECE, groups)
        pairs = _pairs(np, generator, np.arange(first, last, dtype=np.uint64))
        out[first:last] = convert(pairs).reshape(-1, size)

    HELPERS.run([partial(draw, first) for first in range(0, groups, _PIECE)])
    return out.reshape(-1)[:count]


def samples(xp: ArrayNamespace, generator: Philox, count: int) -> Value:
    """Return the first `count` 32-bit samples as a vector."""
    dtype = np.dtype(np.uint32)
    return _drawn(xp, generator, count, dtype, lambda pairs: pairs.view(np.uint32))


def _unit_float32(bits: Value) -> Value:
    """Map 32-bit samples to [0, 1): 23 bits behind the leading one of [1, 2), minus one."""
    one = np.uint32(0x3F800000)
    return (bits & np.uint32(0x7FFFFF) | one).view(np.float32) - np.float32(1)


def _unit_float64(pairs: Value) -> Value:
    """Map pairs of samples to [0, 1): the high half of the mantissa comes first."""
    high = (pairs & np.uint64(0xFFFFF)) << _HALF
    return (high | pairs >> _HALF | np.uint64(0x3FF << 52)).view(np.float64) - np.float64(1)


def _unit_narrow(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map samples to [0, 1) of a 16-bit float: as many bits as its mantissa has."""
    mantissa = 10 if dtype == np.float16 else 7
    exact = (bits & np.uint32((1 << mantissa) - 1)).astype(np.float32)
    return (exact * np.float32(2.0**-mantissa)).astype(dtype)


def unit_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples to the floats of [0, 1) that TensorFlow makes of one counter."""
    if dtype == np.float64:
        return _unit_float64(bits.view(np.uint64))
    return _unit_float32(bits) if dtype == np.float32 else _unit_narrow(bits, dtype)


def uniform(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of [0, 1)."""
    return _drawn(xp, generator, count, dtype, lambda pairs: unit_of(pairs.view(np.uint32), dtype))


def full_integers(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` integers over the whole range of a 32- or 64-bit type."""
    bits = np.uint64 if dtype.itemsize == 8 else np.uint32
    return _drawn(xp, generator, count, dtype, lambda pairs: pairs.view(bits).astype(dtype))


def integers(
    xp: ArrayNamespace,
    generator: Philox,
    count: int,
    dtype: np.dtype[Any],
    low: Value,
    high: Value,
) -> Value:
    """Return `count` integers of [low, high), by remainder, as TensorFlow does."""
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
    return _drawn(xp, generator, count, dtype, lambda pairs: _normal_of_pairs(xp, pairs, dtype))


def normal_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples to the normal values that TensorFlow makes of one counter (NumPy)."""
    return _normal_of_pairs(np, bits.view(np.uint64), dtype)


def truncated_normal(generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of the standard normal distribution cut off at 2 (NumPy only).

    A group of outputs (two for float64, else four) has its own run of counters and takes samples
    from it until all its outputs fall within the bound.
    """
    size = 2 if dtype == np.float64 else 4
    groups = -(-count // size)
    out = np.empty((groups, size), np.float64 if size == 2 else np.float32)

    def draw(first: int) -> None:
        _fill_truncated(generator, first, out[first : first + _PIECE])

    if groups <= _PIECE:
        draw(0)
    else:
        HELPERS.run([partial(draw, first) for first in range(0, groups, _PIECE)])
    return out.reshape(-1)[:count].astype(dtype, copy=False)


def _fill_truncated(generator: Philox, first: int, out: Value) -> None:
    """Fill the groups of outputs (groups, size), starting at index `first`."""
    groups, size = out.shape
    stride = np.uint64(size * RESERVED_PER_OUTPUT // 4)
    starts = np.arange(first, first + groups, dtype=np.uint64) * stride
    # Most groups are full at once.
    values = out[:] = normal_of(blocks(np, generator, starts), out.dtype)
    are_good = np.abs(values) < 2
    pending = np.flatnonzero(~np.logical_and.reduce(are_good.T))
    values, are_good = values[pending], are_good[pending]
    filled = np.zeros(len(pending), np.intp)
    for turn in range(1, RESERVED_PER_OUTPUT + 1):
        for value, is_good in zip(values.T, are_good.T, strict=True):
            fits = np.flatnonzero(is_good & (filled < size))
            out[pending[fits], filled[fits]] = value[fits]
            filled[fits] += 1
        left = filled < size
        pending, filled = pending[left], filled[left]
        if not pending.size or turn == RESERVED_PER_OUTPUT:
            break
        values = normal_of(blocks(np, generator, starts[pending] + np.uint64(turn)), out.dtype)
        are_good = np.abs(values) < 2


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
        ResourceExhaustedError: so many numbers do not fit into memory.
    """
    array = np.asarray(shape)
    if array.ndim != 1:
        raise errors.InvalidArgumentError(
            f"shape must be a vector of {{int32,int64}}, got shape {list(array.shape)}"
        )
    sizes = tuple(int(size) for size in array)
    if min(sizes, default=0) < 0:
        raise errors.InvalidArgumentError(f"shape must have non-negative sizes, got {list(sizes)}")
    check_size(sizes)
    return sizes, math.prod(sizes)


INTEGER_TYPES = (dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)
