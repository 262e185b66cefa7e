"""MurmurHash64A of many strings at once, vectorized with NumPy; TensorFlow's `Hash64`.

The function is public (Austin Appleby's smhasher). It takes one step per 8 bytes. The strings are
sorted, the longest first, so that those with a word left are the first rows; very long strings are
hashed one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_U64 = np.uint64
_FACTOR: Final = _U64(0xC6A4A7935BD1E995)
_MAX_LENGTH: Final = 256
_TABLE_WORDS: Final = 1 << 20  # words of all strings that are gathered together


def murmur_hashes(items: Sequence[bytes], seed: int, one: Callable[[bytes], int]) -> Any:
    """Return the hashes as uint64; `one` computes that of a single long string."""
    packed = PackedStrings(items)
    state = _U64(seed) ^ (packed.sizes.astype(_U64) * _FACTOR)
    _add_words(state, packed)
    _add_tails(state, packed)
    state = _mixed(_mixed(state) * _FACTOR)
    for index in np.flatnonzero(packed.sizes > _MAX_LENGTH).tolist():
        state[index] = one(items[index])
    return state


def _add_words(state: Any, packed: PackedStrings) -> None:
    """Hash the whole words of all strings, in place; of long ones only the first."""
    counts = np.minimum(packed.sizes, _MAX_LENGTH) // WORD
    order = np.argsort((_MAX_LENGTH - counts).astype(np.uint16), kind="stable")  # a radix sort
    starts, ordered = packed.starts[order], state[order]
    # For each step the number of strings that have a word left.
    remaining = (len(counts) - np.cumsum(np.bincount(counts)))[:-1].tolist()
    for first, last in _tables(remaining):
        offsets = starts[: remaining[first]] + WORD * np.arange(first, last)[:, None]
        words = packed.words_at(np.minimum(offsets, len(packed.text)))  # short ones may lack some
        blocks = _mixed(words * _FACTOR) * _FACTOR
        for block, count in zip(blocks, remaining[first:last], strict=True):
            part = ordered[:count]
            part ^= block[:count]
            part *= _FACTOR
    state[order] = ordered


def _tables(remaining: list[int]) -> Iterator[tuple[int, int]]:
    """Divide the steps into ranges, so that the words of each fill most of one table."""
    first = 0
    for step, count in enumerate(remaining):
        size = remaining[first]
        if 4 * count < 3 * size or (step - first) * size > _TABLE_WORDS:
            yield first, step
            first = step
    if remaining:
        yield first, len(remaining)


def _add_tails(state: Any, packed: PackedStrings) -> None:
    """Hash the bytes after the last whole word of each string, in place."""
    tails = packed.sizes % WORD
    rows = np.flatnonzero(tails)
    bits = (tails[rows] * 8).astype(_U64)
    ends = (packed.starts + packed.sizes - tails)[rows]
    word = packed.words_at(ends) & ((_U64(1) << bits) - _U64(1))
    state[rows] = (state[rows] ^ word) * _FACTOR


def _mixed(value: Any) -> Any:
    return value ^ (value >> _U64(47))
