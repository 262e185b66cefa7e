"""Philox4x32-10, the counter-based generator of TensorFlow's random ops, and its distributions.

The algorithm is public (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). How
samples become values: tensorflow/core/lib/random/random_distributions.h; in what order counters are
used: tensorflow/core/kernels/random_op_cpu.h. Everything works on NumPy and on `jax.numpy` with
64-bit types switched on, so that the same seed gives the same values on each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.random._float32_math import log, sine_and_cosine

if TYPE_CHECKING:
    from graphmill.typing import ArrayNamespace, Value

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MASK64 = (1 << 64) - 1
RESERVED_PER_OUTPUT = 256
"""Counters that TensorFlow sets aside for each output, however many it uses."""


@dataclass(frozen=True, slots=True)
class Philox:
    """A key and the next counter; `counter` is (low, high), each a `uint64` scalar or an int."""

    key: Any
    low: Any
    high: Any

    def skip(self, count: int) -> Philox:
        """Return the generator `count` counters further on (Python integers only)."""
        total = (self.low | self.high << 64) + count
        return Philox(self.key, total & _MASK64, total >> 64 & _MASK64)


def seeded(seed: int, seed2: int) -> Philox:
    """Return the generator of a stateful op with these two seed attrs."""
    return Philox(seed & _MASK64, 0, seed2 & _MASK64)


def _rounds(c: list[Any], key: Any, xp: ArrayNamespace) -> list[Any]:
    """Return the four 32-bit results, in `uint64` arrays, of counters `c` (four such arrays)."""
    k0, k1 = key & _LOW, key >> _HALF
    for turn in range(10):
        if turn:
            k0 = k0 + xp.uint64(_WEYL[0]) & _LOW
            k1 = k1 + xp.uint64(_WEYL[1]) & _LOW
        product0, product1 = c[0] * _MULTIPLIERS[0], c[2] * _MULTIPLIERS[1]
        c = [
            (product1 >> _HALF) ^ c[1] ^ k0,
            product1 & _LOW,
            (product0 >> _HALF) ^ c[3] ^ k1,
            product0 & _LOW,
        ]
    return c


def blocks(xp: ArrayNamespace, generator: Philox, offsets: Value) -> Value:
    """Return the uint32 results (…, 4) of the counters `offsets` (uint64) behind `generator`."""
    low, high = xp.uint64(generator.low), xp.uint64(generator.high)
    first = low + offsets
    second = high + (first < low).astype(np.uint64)
    counter = [first & _LOW, first >> _HALF, second & _LOW, second >> _HALF]
    results = _rounds(counter, xp.asarray(xp.uint64(generator.key)), xp)
    return xp.stack(results, axis=-1).astype(np.uint32)


def samples(xp: ArrayNamespace, generator: Philox, count: int) -> Value:
    """Return the first `count` 32-bit samples as a vector."""
    groups = -(-count // 4)
    return blocks(xp, generator, xp.arange(groups, dtype=np.uint64)).reshape(-1)[:count]


def _pairs_to_uint64(low: Value, high: Value) -> Value:
    return low.astype(np.uint64) | high.astype(np.uint64) << _HALF


def _unit_float32(bits: Value) -> Value:
    """Map 32-bit samples to [0, 1): 23 bits behind the leading one of [1, 2), minus one."""
    one = np.uint32(0x3F800000)
    return (bits & np.uint32(0x7FFFFF) | one).view(np.float32) - np.float32(1)


def _unit_float64(first: Value, second: Value) -> Value:
    high = first.astype(np.uint64) & np.uint64(0xFFFFF)
    bits = high << _HALF | second.astype(np.uint64) | np.uint64(0x3FF << 52)
    return bits.view(np.float64) - np.float64(1)


def _unit_narrow(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map samples to [0, 1) of a 16-bit float: as many bits as its mantissa has."""
    mantissa = 10 if dtype == np.float16 else 7
    exact = (bits & np.uint32((1 << mantissa) - 1)).astype(np.float32)
    return (exact * np.float32(2.0**-mantissa)).astype(dtype)


def uniform(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of [0, 1)."""
    if dtype == np.float64:
        bits = samples(xp, generator, 2 * count)
        return _unit_float64(bits[0::2], bits[1::2])
    bits = samples(xp, generator, count)
    return _unit_float32(bits) if dtype == np.float32 else _unit_narrow(bits, dtype)


def full_integers(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` integers over the whole range of a 32- or 64-bit type."""
    if dtype.itemsize == 8:
        bits = samples(xp, generator, 2 * count)
        return _pairs_to_uint64(bits[0::2], bits[1::2]).astype(dtype)
    return samples(xp, generator, count).astype(dtype)


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


def _box_muller(xp: ArrayNamespace, first: Value, second: Value) -> tuple[Value, Value]:
    """Map two float32 samples of [0, 1) to two normal ones."""
    first = xp.maximum(first, np.float32(1e-7))
    angle = (second.astype(np.float64) * (2 * np.pi)).astype(np.float32)
    radius = xp.sqrt(np.float32(-2) * log(xp, first))
    sine, cosine = sine_and_cosine(xp, angle)
    return sine * radius, cosine * radius


def _box_muller_double(xp: ArrayNamespace, bits: Value) -> Value:
    """Map (…, 4) samples to (…, 2) normal float64 values."""
    first = xp.maximum(_unit_float64(bits[..., 0], bits[..., 1]), np.float64(1e-7))
    angle = 2 * np.pi * _unit_float64(bits[..., 2], bits[..., 3])
    radius = xp.sqrt(-2 * xp.log(first))
    return xp.stack([xp.sin(angle) * radius, xp.cos(angle) * radius], axis=-1)


def normal(xp: ArrayNamespace, generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of the standard normal distribution."""
    if dtype == np.float64:
        bits = samples(xp, generator, -(-count // 2) * 4).reshape(-1, 4)
        return _box_muller_double(xp, bits).reshape(-1)[:count]
    unit = _unit_float32(samples(xp, generator, -(-count // 2) * 2))
    pair = _box_muller(xp, unit[0::2], unit[1::2])
    return xp.stack(pair, axis=-1).reshape(-1)[:count].astype(dtype)


def unit_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples to the floats of [0, 1) that TensorFlow makes of one counter (NumPy)."""
    if dtype == np.float64:
        return np.stack([_unit_float64(bits[:, k], bits[:, k + 1]) for k in (0, 2)], axis=-1)
    return _unit_float32(bits) if dtype == np.float32 else _unit_narrow(bits, dtype)


def normal_of(bits: Value, dtype: np.dtype[Any]) -> Value:
    """Map (n, 4) samples to the normal values that TensorFlow makes of one counter (NumPy)."""
    if dtype == np.float64:
        return _box_muller_double(np, bits)
    unit = _unit_float32(bits)
    pair = _box_muller(np, unit[:, 0::2], unit[:, 1::2])
    return np.stack(pair, axis=-1).reshape(-1, 4).astype(dtype)


def truncated_normal(generator: Philox, count: int, dtype: np.dtype[Any]) -> Value:
    """Return `count` floats of the standard normal distribution cut off at 2 (NumPy only).

    A group of outputs (two for float64, else four) has its own run of counters and takes samples
    from it until all its outputs fall within the bound.
    """
    size = 2 if dtype == np.float64 else 4
    groups = -(-count // size)
    stride = np.uint64(size * RESERVED_PER_OUTPUT // 4)
    starts = np.arange(groups, dtype=np.uint64) * stride
    out = np.empty((groups, size), np.float64 if size == 2 else np.float32)
    filled = np.zeros(groups, np.intp)
    for turn in range(RESERVED_PER_OUTPUT):
        pending = np.flatnonzero(filled < size)
        if not pending.size:
            break
        bits = blocks(np, generator, starts[pending] + np.uint64(turn))
        if size == 2:
            values = _box_muller_double(np, bits)
        else:
            unit = _unit_float32(bits)
            pair = _box_muller(np, unit[:, 0::2], unit[:, 1::2])
            values = np.stack(pair, axis=-1).reshape(-1, 4)
        for column in range(values.shape[1]):
            good = (np.abs(values[:, column]) < 2) & (filled[pending] < size)
            rows = pending[good]
            out[rows, filled[rows]] = values[good, column]
            filled[rows] += 1
    return out.reshape(-1)[:count].astype(dtype)


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
        ResourceExhaustedError: as many numbers fit in no memory.
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
