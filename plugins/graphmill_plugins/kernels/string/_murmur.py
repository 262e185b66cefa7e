"""MurmurHash64A of many strings at once, vectorized with NumPy; TensorFlow's `Hash64`.

The function is public (Austin Appleby's smhasher). It takes one step per 8 bytes, which is
vectorized over all strings that are long enough; very long strings are hashed one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_U64 = np.uint64
_FACTOR: Final = _U64(0xC6A4A7935BD1E995)
_MAX_LENGTH: Final = 256


def murmur_hashes(items: Sequence[bytes], seed: int, one: Callable[[bytes], int]) -> Any:
    """Return the hashes as uint64; `one` computes that of a single long string."""
    packed = PackedStrings(items)
    sizes = packed.sizes
    state = _U64(seed) ^ (sizes.astype(_U64) * _FACTOR)
    for start in range(0, min(int(sizes.max(initial=0)), _MAX_LENGTH) - WORD + 1, WORD):
        rows = np.flatnonzero(sizes >= start + WORD)
        block = _mixed(packed.words_at(packed.starts[rows] + start) * _FACTOR) * _FACTOR
        state[rows] = (state[rows] ^ block) * _FACTOR
    tails = sizes % WORD
    rows = np.flatnonzero(tails)
    bits = (tails[rows] * 8).astype(_U64)
    word = packed.words_at((packed.starts + sizes - tails)[rows]) & ((_U64(1) << bits) - _U64(1))
    state[rows] = (state[rows] ^ word) * _FACTOR
    state = _mixed(_mixed(state) * _FACTOR)
    for index in np.flatnonzero(sizes > _MAX_LENGTH).tolist():
        state[index] = one(items[index])
    return state


def _mixed(value: Any) -> Any:
    return value ^ (value >> _U64(47))
