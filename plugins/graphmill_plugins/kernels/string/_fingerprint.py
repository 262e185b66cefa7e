"""FarmHash's Fingerprint64 of many strings at once, in NumPy.

The function is public (github.com/google/farmhash, farmhashna). Strings of up to 64 bytes, which
nearly all are, take the same few steps for each class of lengths, so that whole arrays take them;
longer ones are left to the function for one string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill_plugins.kernels.packed_strings import JoinedStrings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_U64 = np.uint64
_K0, _K1, _K2 = _U64(0xC3A5C85C97CB3127), _U64(0xB492B66FBE98F273), _U64(0x9AE16A3B2F90404F)
_LONGEST: Final = 64
FEW: Final = 40
"""Up to so many strings, one after the other is quicker."""


class _Texts:
    """Strings of one length class: `word(i)` is the 8 bytes of each at position `i`."""

    def __init__(self, joined: JoinedStrings, chosen: Any) -> None:
        self._words_at = joined.words_at
        self.starts, self.sizes = joined.starts[chosen], joined.sizes[chosen]
        self.factor = _K2 + self.sizes.astype(_U64) * _U64(2)

    def word(self, place: int) -> Any:
        """Return 8 bytes as an integer; a negative position counts from the end."""
        base = self.starts if place >= 0 else self.starts + self.sizes
        return self._words_at(base + place)

    def half(self, place: int) -> Any:
        """Return 4 bytes as an integer."""
        return self.word(place) & _U64(0xFFFFFFFF)

    def byte(self, place: Any) -> Any:
        """Return one byte of each."""
        return self._words_at(self.starts + place) & _U64(0xFF)


def fingerprints(items: Sequence[bytes], one: Callable[[bytes], int]) -> Any:
    """Return the fingerprint of each string, uint64; `one` computes that of one string."""
    count = len(items)
    joined = JoinedStrings(items)
    sizes = joined.sizes
    shortest, longest = sizes.min(initial=_LONGEST), sizes.max(initial=0)
    result = np.empty(count, _U64)
    for low, high, function in _CLASSES:
        if low <= shortest and longest <= high:
            return function(_Texts(joined, slice(None)))
        if longest < low or high < shortest:
            continue
        chosen = np.flatnonzero((sizes >= low) & (sizes <= high))
        if chosen.size:
            result[chosen] = function(_Texts(joined, chosen))
    for place in np.flatnonzero(sizes > _LONGEST).tolist():
        result[place] = one(items[place])
    return result


def _rotate(value: Any, shift: int) -> Any:
    return (value >> _U64(shift)) | (value << _U64(64 - shift))


def _shift_mix(value: Any) -> Any:
    return value ^ (value >> _U64(47))


def _hash_16(first: Any, second: Any, factor: Any) -> Any:
    a = _shift_mix((first ^ second) * factor)
    return _shift_mix((second ^ a) * factor) * factor


def _none(texts: _Texts) -> Any:
    return np.full(len(texts.sizes), _K2)


def _to_3(texts: _Texts) -> Any:
    sizes = texts.sizes
    y = texts.byte(0) + (texts.byte(sizes >> 1) << _U64(8))
    z = sizes.astype(_U64) + (texts.byte(sizes - 1) << _U64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _to_7(texts: _Texts) -> Any:
    first = texts.sizes.astype(_U64) + (texts.half(0) << _U64(3))
    return _hash_16(first, texts.half(-4), texts.factor)


def _to_16(texts: _Texts) -> Any:
    a, b = texts.word(0) + _K2, texts.word(-8)
    c = _rotate(b, 37) * texts.factor + a
    return _hash_16(c, (_rotate(a, 25) + b) * texts.factor, texts.factor)


def _to_32(texts: _Texts) -> Any:
    factor = texts.factor
    a, b = texts.word(0) * _K1, texts.word(8)
    c, d = texts.word(-8) * factor, texts.word(-16) * _K2
    first = _rotate(a + b, 43) + _rotate(c, 30) + d
    return _hash_16(first, a + _rotate(b + _K2, 18) + c, factor)


def _to_64(texts: _Texts) -> Any:
    factor = texts.factor
    a, b = texts.word(0) * _K2, texts.word(8)
    c, d = texts.word(-8) * factor, texts.word(-16) * _K2
    y = _rotate(a + b, 43) + _rotate(c, 30) + d
    z = _hash_16(y, a + _rotate(b + _K2, 18) + c, factor)
    e, f = texts.word(16) * factor, texts.word(24)
    g, h = (y + texts.word(-32)) * factor, (z + texts.word(-24)) * factor
    first = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _hash_16(first, e + _rotate(f + a, 18) + g, factor)


_CLASSES: Final = (
    (0, 0, _none),
    (1, 3, _to_3),
    (4, 7, _to_7),
    (8, 16, _to_16),
    (17, 32, _to_32),
    (33, _LONGEST, _to_64),
)
