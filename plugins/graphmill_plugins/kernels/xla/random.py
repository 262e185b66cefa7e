"""XlaRngBitGenerator: random bits of the Philox and ThreeFry algorithms.

Semantics: the RngBitGenerator operation of XLA and xla/hlo/builder/lib/prng.cc. For ThreeFry see
Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import InvalidArgumentError
from graphmill.spi import kernel
from graphmill_plugins.kernels._support import check_size, scalar_int, shape_text
from graphmill_plugins.kernels.random._philox import Philox, full_integers, output_shape

if TYPE_CHECKING:
    from graphmill.spi import Value

_PHILOX, _THREEFRY, _ANY = 1, 2, 3
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA
_MASK32, _MASK64 = (1 << 32) - 1, (1 << 64) - 1


@kernel("XlaRngBitGenerator", host=True)
def rng_bit_generator(
    algorithm: Value,
    initial_state: Value,
    shape: Value,
    dtype: np.dtype[Any],
) -> tuple[Value, Value]:
    """Return the new state and the bits.

    Raises:
        InvalidArgumentError: the algorithm is unknown, or the state has the wrong shape.
    """
    kind = scalar_int("algorithm", algorithm)
    lengths = (2, 3) if kind in (_PHILOX, _ANY) else (2,)
    if kind not in (_PHILOX, _THREEFRY, _ANY):
        raise InvalidArgumentError(
            f"unknown algorithm {kind}; expected {_PHILOX} (Philox), {_THREEFRY} (ThreeFry) or "
            f"{_ANY} (any)"
        )
    if initial_state.shape not in [(length,) for length in lengths]:
        raise InvalidArgumentError(
            f"initial_state must have shape {' or '.join(shape_text((n,)) for n in lengths)}, got "
            f"{shape_text(initial_state.shape)}"
        )
    sizes, _ = output_shape(shape)
    check_size(sizes, itemsize=dtype.itemsize)
    key, *counters = map(int, initial_state)
    draw = _threefry if kind == _THREEFRY else _philox
    bits, used = draw(key, counters, sizes, dtype)
    counter = sum(part << 64 * index for index, part in enumerate(counters)) + used
    parts = [counter >> 64 * index & _MASK64 for index in range(len(counters))]
    return np.array([key, *parts], np.uint64), bits


def _philox(
    key: int, counters: list[int], sizes: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Value, int]:
    """Return the bits and the number of counters used, 128 bits each."""
    count = math.prod(sizes)
    generator = Philox(key, *(*counters, key)[:2])  # XLA extends a state of two words by the key
    kind = np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)
    bits = full_integers(np, generator, count, kind).astype(dtype)
    return bits.reshape(sizes), -(-count // (2 if dtype.itemsize == 8 else 4))


def _threefry(
    key: int, counters: list[int], sizes: tuple[int, ...], dtype: np.dtype[Any]
) -> tuple[Value, int]:
    """Return the bits and the number of counters used.

    Both 32-bit words of a counter are adjacent along the first dimension of even size. If there is
    none, they are adjacent along the largest dimension, whose surplus last element is dropped.
    """
    count = math.prod(sizes)
    if dtype.itemsize == 8:
        low, high = _threefry_pairs(key, counters[0], count)
        bits = low.astype(np.uint64) | high.astype(np.uint64) << np.uint64(32)
        return bits.reshape(sizes).astype(dtype), count
    if not sizes:
        return _threefry_pairs(key, counters[0], 1)[0].astype(dtype).reshape(()), 1
    even = (axis for axis, size in enumerate(sizes) if size % 2 == 0)
    axis = next(even, sizes.index(max(sizes)))
    half = (*sizes[:axis], -(-sizes[axis] // 2), *sizes[axis + 1 :])
    pair = [x.reshape(half) for x in _threefry_pairs(key, counters[0], math.prod(half))]
    whole = (*half[:axis], 2 * half[axis], *half[axis + 1 :])
    bits = np.stack(pair, axis=axis + 1).reshape(whole)
    return np.take(bits, np.arange(sizes[axis]), axis=axis).astype(dtype), len(pair[0].reshape(-1))


def _threefry_pairs(key: int, counter: int, count: int) -> tuple[Value, Value]:
    """Return two 32-bit words for each of `count` consecutive counters."""
    counters = np.arange(count, dtype=np.uint64) + np.uint64(counter)
    x0, x1 = counters.astype(np.uint32), (counters >> np.uint64(32)).astype(np.uint32)
    first, second = key & _MASK32, key >> 32
    keys = (first, second, first ^ second ^ _PARITY)
    x0, x1 = x0 + np.uint32(keys[0]), x1 + np.uint32(keys[1])
    for round_ in range(1, 6):
        for by in _ROTATIONS[(round_ - 1) % 2]:
            x0 = x0 + x1
            x1 = (x1 << np.uint32(by) | x1 >> np.uint32(32 - by)) ^ x0
        x0 = x0 + np.uint32(keys[round_ % 3])
        x1 = x1 + np.uint32(keys[(round_ + 1) % 3] + round_ & _MASK32)
    return x0, x1
