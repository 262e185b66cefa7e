"""A pseudorandom permutation of the integers up to a bound, computed index by index.

Semantics: tensorflow/core/kernels/random_index_shuffle.cc: the Simon block cipher (Beaulieu et al.,
2013) with a key of three words, applied until the result is in range.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill_plugins.kernels._support import POINTER_SIZE, check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

_MIN_BLOCK: Final = 16
_MAX_BLOCK: Final = 64
_SEQUENCE: Final = 0x7369F885192C0EF5
_CONSTANT: Final = 0xFFFFFFFC
_MANY_ROUNDS: Final = 256
_FEW_ENCRYPTIONS: Final = 100
"""How many encryptions, about, take as long in Python as those of all blocks in NumPy."""
_FEW_INDICES: Final = 64


def index_shuffle(index: int, key: tuple[int, int, int], largest: int, rounds: int = 4) -> int:
    """Return the position of `index` in a pseudorandom permutation of 0 to `largest`.

    Args:
        index: at most `largest`.
        key: three 32-bit integers that choose the permutation.
        largest: the largest index, below 2**64.
        rounds: the number of rounds of the cipher; even, at least 4.
    """
    if largest == 0:
        return 0
    width = _width(largest)
    check_size((rounds,), "the list of keys", itemsize=4 * POINTER_SIZE)
    keys = _round_keys(key, rounds, width)
    while True:
        check_cancelled()
        index = _encrypted(index, keys, width)
        if index <= largest:
            return index


def shuffled_range(
    indices: range, key: tuple[int, int, int], largest: int, rounds: int = 4
) -> list[int]:
    """Return `index_shuffle` of all indices of a range, computed together."""
    values = np.arange(indices.start, indices.stop, indices.step, dtype=np.uint64)
    positions: list[int] = shuffled_indices(values, key, largest, rounds).tolist()
    return positions


def shuffled_indices(
    indices: NDArray[np.uint64], key: tuple[int, int, int], largest: int, rounds: int = 4
) -> NDArray[np.uint64]:
    """Return `index_shuffle` of each index of a vector.

    Indices that are encrypted often are encrypted together. A block has 16 bits or more, so an
    index below a small bound takes tens of thousands of encryptions to return below it. All 65,536
    blocks are encrypted once then, and looked up.
    """
    if largest == 0:
        return np.zeros_like(indices)
    most_blocks = max(1 << _MIN_BLOCK, largest)
    if indices.size * most_blocks < _FEW_ENCRYPTIONS * largest:
        alone = [index_shuffle(index, key, largest, rounds) for index in indices.tolist()]
        return np.array(alone, np.uint64)
    width = _width(largest)
    check_size((rounds,), "the list of keys", itemsize=4 * POINTER_SIZE)
    keys = _round_keys(key, rounds, width)
    encrypt: Callable[[Any], Any] = partial(_encrypted, keys=keys, width=width)
    if largest < 1 << _MIN_BLOCK:
        blocks = encrypt(np.arange(1 << _MIN_BLOCK, dtype=np.uint16))
        if indices.size <= _FEW_INDICES:
            return _followed(indices, blocks, largest)
        encrypt = blocks.astype(np.uint64).__getitem__
    values = indices.copy()
    pending: Any = slice(None)
    while True:
        check_cancelled()
        values[pending] = encrypt(values[pending])
        pending = np.flatnonzero(values > largest)
        if not pending.size:
            return values


def _followed(
    indices: NDArray[np.uint64], blocks: NDArray[np.uint16], largest: int
) -> NDArray[np.uint64]:
    """Look up few indices in all encrypted blocks, one by one, until they are in range."""
    positions = []
    for index in indices.tolist():
        block = blocks.item(index)
        while block > largest:
            block = blocks.item(block)
        positions.append(block)
    return np.array(positions, np.uint64)


def _width(largest: int) -> int:
    """Return the bits of half a block of the cipher."""
    block = (largest - 1).bit_length()
    return min(max(block + block % 2, _MIN_BLOCK), _MAX_BLOCK) // 2


def _round_keys(key: tuple[int, int, int], rounds: int, width: int) -> list[int]:
    mask = (1 << width) - 1
    keys = [word & mask for word in key]
    bits = _SEQUENCE & mask
    for round_ in cancellable(range(3, rounds)):
        last = keys[-1]
        mixed = _rotated_right(last, 3, width) ^ _rotated_right(last, 4, width)
        keys.append((_CONSTANT & mask) ^ (bits & 1) ^ keys[round_ - 3] ^ mixed)
        bits >>= 1
    return keys


def _encrypted(value: Any, keys: list[int], width: int) -> Any:
    """Encrypt an integer, or an array of uint64."""
    mask = (1 << width) - 1
    left, right = value >> width & mask, value & mask
    pairs: Iterable[tuple[int, int]] = zip(keys[::2], keys[1::2], strict=True)
    for first, second in pairs if len(keys) < _MANY_ROUNDS else cancellable(pairs):
        left ^= _mixed(right, width) ^ first
        right ^= _mixed(left, width) ^ second
    return left << width | right


def _mixed(word: Any, width: int) -> Any:
    one, two, eight = (_rotated_right(word, width - count, width) for count in (1, 2, 8))
    return one & eight ^ two


def _rotated_right(word: Any, count: int, width: int) -> Any:
    mask = (1 << width) - 1
    return (word >> count | word << (width - count)) & mask
