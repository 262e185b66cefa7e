"""SipHash-2-4 of many strings at once, vectorized with NumPy.

The function is public (J.-P. Aumasson and D. J. Bernstein, 2012). Strings with equal numbers of
8-byte words take the same rounds, which are vectorized.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

if TYPE_CHECKING:
    from collections.abc import Sequence

_U64 = np.uint64
_MASK = 0xFFFFFFFFFFFFFFFF
_WORD = WORD
_MAX_SCALAR_HASHES = 4
"""Up to this number of strings of one length, Python integers are faster."""
_INITIAL_STATE = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def sip_hashes(items: Sequence[bytes], key0: int, key1: int) -> Any:
    """Return the hashes under a key of two 64-bit integers, as uint64."""
    packed = PackedStrings(items)
    counts = packed.sizes // _WORD
    result = np.empty(len(items), _U64)
    for count in set(counts.tolist()):
        rows = np.flatnonzero(counts == count)
        if len(rows) <= _MAX_SCALAR_HASHES:
            for row in rows.tolist():
                result[row] = _hash_one(_padded(items[row], count), key0, key1)
        else:
            starts, sizes = packed.starts[rows], packed.sizes[rows]
            blocks = [packed.words_at(starts + _WORD * index) for index in range(count)]
            tail_bits = (8 * (sizes % _WORD)).astype(_U64)
            last = packed.words_at(starts + _WORD * count) & ((_U64(1) << tail_bits) - _U64(1))
            blocks.append(last | (sizes.astype(_U64) << _U64(56)))
            result[rows] = _hash_many(blocks, key0, key1)
    return result


def _padded(text: bytes, count: int) -> bytes:
    """Pad a string to whole words, with its length modulo 256 as the last byte."""
    return text + bytes(_WORD * (count + 1) - 1 - len(text)) + bytes((len(text) & 0xFF,))


def _hash_many(blocks: list[Any], key0: int, key1: int) -> Any:
    keys = (key0, key1, key0, key1)
    state = [
        np.full(len(blocks[0]), a ^ b, _U64) for a, b in zip(_INITIAL_STATE, keys, strict=True)
    ]
    for block in blocks:
        state[3] ^= block
        _rounds(state, 2)
        state[0] ^= block
    state[2] ^= _U64(0xFF)
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _rounds(state: list[Any], count: int) -> None:
    v0, v1, v2, v3 = state
    for _ in range(count):
        v0 = v0 + v1
        v1 = (v1 << _U64(13) | v1 >> _U64(51)) ^ v0
        v0 = v0 << _U64(32) | v0 >> _U64(32)
        v2 = v2 + v3
        v3 = (v3 << _U64(16) | v3 >> _U64(48)) ^ v2
        v0 = v0 + v3
        v3 = (v3 << _U64(21) | v3 >> _U64(43)) ^ v0
        v2 = v2 + v1
        v1 = (v1 << _U64(17) | v1 >> _U64(47)) ^ v2
        v2 = v2 << _U64(32) | v2 >> _U64(32)
    state[:] = v0, v1, v2, v3


def _hash_one(text: bytes, key0: int, key1: int) -> int:
    v0, v1, v2, v3 = (a ^ b for a, b in zip(_INITIAL_STATE, (key0, key1, key0, key1), strict=True))
    for start in range(0, len(text), _WORD):
        block = int.from_bytes(text[start : start + _WORD], "little")
        v0, v1, v2, v3 = _scalar_rounds(v0, v1, v2, v3 ^ block, 2)
        v0 ^= block
    v0, v1, v2, v3 = _scalar_rounds(v0, v1, v2 ^ 0xFF, v3, 4)
    return v0 ^ v1 ^ v2 ^ v3


def _scalar_rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = v0 + v1 & _MASK
        v1 = (v1 << 13 & _MASK | v1 >> 51) ^ v0
        v0 = v0 << 32 & _MASK | v0 >> 32
        v2 = v2 + v3 & _MASK
        v3 = (v3 << 16 & _MASK | v3 >> 48) ^ v2
        v0 = v0 + v3 & _MASK
        v3 = (v3 << 21 & _MASK | v3 >> 43) ^ v0
        v2 = v2 + v1 & _MASK
        v1 = (v1 << 17 & _MASK | v1 >> 47) ^ v2
        v2 = v2 << 32 & _MASK | v2 >> 32
    return v0, v1, v2, v3
