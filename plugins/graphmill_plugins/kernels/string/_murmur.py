"""MurmurHash64A of many strings at once, in NumPy; TensorFlow's `Hash64`.

The function is public (Austin Appleby's smhasher). Strings take a step for each 8 bytes that they
have, so that whole arrays take them; long ones are left to the function for one string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, JoinedStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_U64 = np.uint64
_FACTOR: Final = _U64(0xC6A4A7935BD1E995)
_LONGEST: Final = 256


def murmur_hashes(items: Sequence[bytes], seed: int, one: Callable[[bytes], int]) -> Any:
    """Return the hash of each string, uint64; `one` computes that of one string."""
    joined = JoinedStrings(items)
    sizes = joined.sizes
    state = _U64(seed) ^ (sizes.astype(_U64) * _FACTOR)
    for start in range(0, min(int(sizes.max(initial=0)), _LONGEST) - WORD + 1, WORD):
        have = np.flatnonzero(sizes >= start + WORD)
        block = _mixed(joined.words_at(joined.starts[have] + start) * _FACTOR) * _FACTOR
        state[have] = (state[have] ^ block) * _FACTOR
    rest = sizes % WORD
    ended = np.flatnonzero(rest)
    bits = (rest[ended] * 8).astype(_U64)
    word = joined.words_at((joined.starts + sizes - rest)[ended]) & ((_U64(1) << bits) - _U64(1))
    state[ended] = (state[ended] ^ word) * _FACTOR
    state = _mixed(_mixed(state) * _FACTOR)
    for place in np.flatnonzero(sizes > _LONGEST).tolist():
        state[place] = one(items[place])
    return state


def _mixed(value: Any) -> Any:
    return value ^ (value >> _U64(47))
