"""FarmHash's Fingerprint64 of many strings at once, vectorized with NumPy.

The function is public (github.com/google/farmhash, farmhashna). All strings of a length class take
the same steps, which are vectorized; strings of more than 64 bytes take a step for each 64 bytes.
Very long strings are hashed one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import WORD, PackedStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_U64 = np.uint64
_K0, _K1, _K2 = _U64(0xC3A5C85C97CB3127), _U64(0xB492B66FBE98F273), _U64(0x9AE16A3B2F90404F)
_CHUNK: Final = 64  # bytes that a step hashes of a longer string
_MAX_LENGTH: Final = 1024  # bytes; longer strings are hashed one by one
_SEED: Final = 81
MAX_SCALAR_HASHES: Final = 40
"""Number of strings up to which hashing them one by one is faster."""


class _LengthClass:
    """Strings of one length class, whose bytes are read at the same positions."""

    def __init__(self, packed: PackedStrings, chosen: Any) -> None:
        self._words_at = packed.words_at
        self.starts, self.sizes = packed.starts[chosen], packed.sizes[chosen]
        self.factor = _K2 + self.sizes.astype(_U64) * _U64(2)

    def word(self, position: int) -> Any:
        """Return 8 bytes of each string as an integer; a negative position counts from the end."""
        base = self.starts if position >= 0 else self.starts + self.sizes
        return self._words_at(base + position)

    def words_at(self, offsets: Any) -> list[Any]:
        """Return the 64 bytes at an offset of each string as eight integers."""
        return [self._words_at(offsets + position) for position in range(0, _CHUNK, WORD)]

    def half(self, position: int) -> Any:
        """Return 4 bytes of each string as an integer."""
        return self.word(position) & _U64(0xFFFFFFFF)

    def byte(self, position: Any) -> Any:
        """Return one byte of each string."""
        return self._words_at(self.starts + position) & _U64(0xFF)


def fingerprints(items: Sequence[bytes], one: Callable[[bytes], int]) -> Any:
    """Return the fingerprints as uint64; `one` computes that of a single long string."""
    count = len(items)
    packed = PackedStrings(items)
    sizes = packed.sizes
    shortest, longest = sizes.min(initial=_MAX_LENGTH), sizes.max(initial=0)
    result = np.empty(count, _U64)
    for low, high, function in _CLASSES:
        if low <= shortest and longest <= high:
            return function(_LengthClass(packed, slice(None)))
        if longest < low or high < shortest:
            continue
        chosen = np.flatnonzero((sizes >= low) & (sizes <= high))
        if chosen.size:
            result[chosen] = function(_LengthClass(packed, chosen))
    for index in np.flatnonzero(sizes > _MAX_LENGTH).tolist():
        result[index] = one(items[index])
    return result


def _rotate(value: Any, shift: int) -> Any:
    return (value >> _U64(shift)) | (value << _U64(64 - shift))


def _shift_mix(value: Any) -> Any:
    return value ^ (value >> _U64(47))


def _hash_16(first: Any, second: Any, factor: Any) -> Any:
    a = _shift_mix((first ^ second) * factor)
    return _shift_mix((second ^ a) * factor) * factor


def _hash_empty(strings: _LengthClass) -> Any:
    return np.full(len(strings.sizes), _K2)


def _hash_1_to_3(strings: _LengthClass) -> Any:
    sizes = strings.sizes
    y = strings.byte(0) + (strings.byte(sizes >> 1) << _U64(8))
    z = sizes.astype(_U64) + (strings.byte(sizes - 1) << _U64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _hash_4_to_7(strings: _LengthClass) -> Any:
    first = strings.sizes.astype(_U64) + (strings.half(0) << _U64(3))
    return _hash_16(first, strings.half(-4), strings.factor)


def _hash_8_to_16(strings: _LengthClass) -> Any:
    a, b = strings.word(0) + _K2, strings.word(-8)
    c = _rotate(b, 37) * strings.factor + a
    return _hash_16(c, (_rotate(a, 25) + b) * strings.factor, strings.factor)


def _hash_17_to_32(strings: _LengthClass) -> Any:
    factor = strings.factor
    a, b = strings.word(0) * _K1, strings.word(8)
    c, d = strings.word(-8) * factor, strings.word(-16) * _K2
    first = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _hash_16(first, a + _rotate(b + _K2, 18) + c, factor)


def _hash_33_to_64(strings: _LengthClass) -> Any:
    factor = strings.factor
    a, b = strings.word(0) * _K2, strings.word(8)
    c, d = strings.word(-8) * factor, strings.word(-16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_16(y, a + _rotate(b + _K2, 18) + c, factor)
    e, f = strings.word(16) * factor, strings.word(24)
    g, h = (y + strings.word(-32)) * factor, (z + strings.word(-24)) * factor
    first = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _hash_16(first, e + _rotate(f + a, 18) + g, factor)


class _Chunks:
    """The state of strings of more than 64 bytes, while they are hashed.

    Attributes:
        x, y, z: a number for each string.
        v, w: a pair of numbers for each.
    """

    def __init__(self, x: Any, y: Any, z: Any, v: Any, w: Any) -> None:
        self.x, self.y, self.z, self.v, self.w = x, y, z, v, w

    @classmethod
    def begin(cls, strings: _LengthClass) -> _Chunks:
        """Return the state before the first chunk."""
        count = len(strings.sizes)
        seed = np.full(count, _SEED, _U64)
        x, y = seed * _K2 + strings.word(0), seed * _K1 + _U64(113)
        z = _shift_mix(y * _K2 + _U64(113)) * _K2
        pairs = np.zeros((4, count), _U64)
        return cls(x, y, z, (pairs[0], pairs[1]), (pairs[2], pairs[3]))

    def at(self, rows: Any) -> _Chunks:
        """Return the state of some strings."""
        v, w = ((pair[0][rows], pair[1][rows]) for pair in (self.v, self.w))
        return _Chunks(self.x[rows], self.y[rows], self.z[rows], v, w)

    def put(self, rows: Any, other: _Chunks) -> None:
        """Replace the state of some strings."""
        for mine, new in zip(self._arrays(), other._arrays(), strict=True):
            mine[rows] = new

    def _arrays(self) -> tuple[Any, ...]:
        return self.x, self.y, self.z, *self.v, *self.w

    def add(self, words: list[Any], factor: Any, nine: Any) -> None:
        """Hash eight words of each string; `factor` and `nine` differ for the last block."""
        x, y, z, v, w = self.x, self.y, self.z, self.v, self.w
        x = _rotate(x + y + v[0] + words[1], 37) * factor
        y = _rotate(y + v[1] + words[6], 42) * factor
        x = x ^ (w[1] * nine)
        y = y + v[0] * nine + words[5]
        z = _rotate(z + w[0], 33) * factor
        v = _weak_hash(words[:4], v[1] * factor, x + w[0])
        w = _weak_hash(words[4:], z + w[1], y + words[2])
        self.x, self.y, self.z, self.v, self.w = z, y, x, v, w


def _weak_hash(words: list[Any], a: Any, b: Any) -> tuple[Any, Any]:
    a = a + words[0]
    b = _rotate(b + a + words[3], 21)
    c = a + words[1] + words[2]
    return c + words[3], b + _rotate(c, 44) + a


def _hash_chunks(strings: _LengthClass) -> Any:
    sizes = strings.sizes
    chunks = (sizes - 1) // _CHUNK
    state = _Chunks.begin(strings)
    for index in range(int(chunks.max())):
        rows = np.flatnonzero(chunks > index)
        part = state.at(rows)
        starts = strings.starts[rows] + index * _CHUNK
        part.add(strings.words_at(starts), _K1, _U64(1))
        state.put(rows, part)
    return _finished(strings, state)


def _finished(strings: _LengthClass, state: _Chunks) -> Any:
    """Hash the last 64 bytes of each string, which may overlap with bytes already hashed."""
    sizes = strings.sizes
    factor = _K1 + ((state.z & _U64(0xFF)) << _U64(1))
    w0 = state.w[0] + ((sizes - 1) & (_CHUNK - 1)).astype(_U64)
    v0 = state.v[0] + w0
    state.v, state.w = (v0, state.v[1]), (w0 + v0, state.w[1])
    state.add(strings.words_at(strings.starts + sizes - _CHUNK), factor, _U64(9))
    first = _hash_16(state.v[0], state.w[0], factor) + _shift_mix(state.y) * _K0 + state.z
    return _hash_16(first, _hash_16(state.v[1], state.w[1], factor) + state.x, factor)


_CLASSES: Final = (
    (0, 0, _hash_empty),
    (1, 3, _hash_1_to_3),
    (4, 7, _hash_4_to_7),
    (8, 16, _hash_8_to_16),
    (17, 32, _hash_17_to_32),
    (33, _CHUNK, _hash_33_to_64),
    (_CHUNK + 1, _MAX_LENGTH, _hash_chunks),
)
