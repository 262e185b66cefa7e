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

_MIN_BLOCK: Final = 16
_MAX_BLOCK: Final = 64
_SEQUENCE: Final = 0x7369F885192C0EF5
_CONSTANT: Final = 0xFFFFFFFC
_MANY_ROUNDS: Final = 256


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
    """Return `index_shuffle` of all indices of a range, computed together.

    A block has 16 bits or more, so a value of a small range takes tens of thousands of encryptions
    to return to it. All 65,536 blocks are encrypted once then, and the values looked up.
    """
    if largest == 0:
        return [0] * len(indices)
    width = _width(largest)
    keys = _round_keys(key, rounds, width)
    values = np.arange(indices.start, indices.stop, indices.step, dtype=np.uint64)
    encrypt: Callable[[Any], Any] = partial(_encrypted, keys=keys, width=width)
    if largest < 1 << _MIN_BLOCK:
        encrypt = encrypt(np.arange(1 << _MIN_BLOCK, dtype=np.uint64)).__getitem__
    pending: Any = slice(None)
    while True:
        check_cancelled()
        values[pending] = encrypt(values[pending])
        pending = np.flatnonzero(values > largest)
        if not pending.size:
            positions: list[int] = values.tolist()
            return positions


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
