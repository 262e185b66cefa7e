"""FarmHash's Fingerprint128 of one string, with Python integers modulo 2**64.

The function is public (github.com/google/farmhash, farmhashcc).
"""

from __future__ import annotations

from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels.string.hash import (
    HASH_K0,
    HASH_K1,
    fetch,
    hash_16,
    hash_to_16,
    rotate,
    shift_mix,
    weak_hash_32,
)

_MASK = 0xFFFFFFFFFFFFFFFF
_PAIR = 0x9DDFEA08EB382D69
_BLOCK = 128  # bytes of a block; shorter strings have none


def fingerprint128(text: bytes) -> tuple[int, int]:
    """Return the lower and the upper half of the fingerprint, each an unsigned integer."""
    if len(text) < 16:
        return _hash(text, HASH_K0, HASH_K1)
    return _hash(text[16:], fetch(text, 0), fetch(text, 8) + HASH_K0)


def _hash(text: bytes, low: int, high: int) -> tuple[int, int]:
    return _hash_long(text, low, high) if len(text) >= _BLOCK else _hash_short(text, low, high)


def _pair(first: int, second: int) -> int:
    return hash_16(first, second, _PAIR)


def _hash_short(text: bytes, a: int, b: int) -> tuple[int, int]:
    size = len(text)
    if size <= 16:
        a = shift_mix(a * HASH_K1) * HASH_K1 & _MASK
        c = b * HASH_K1 + hash_to_16(text) & _MASK
        d = shift_mix(a + (fetch(text, 0) if size >= 8 else c))
    else:
        c = _pair(fetch(text, size - 8) + HASH_K1, a)
        d = _pair(b + size, c + fetch(text, size - 16))
        a += d
        for start in range(0, size - 16, 16):
            a = (a ^ shift_mix(fetch(text, start) * HASH_K1) * HASH_K1) * HASH_K1 & _MASK
            b = (b ^ a) & _MASK
            c = (c ^ shift_mix(fetch(text, start + 8) * HASH_K1) * HASH_K1) * HASH_K1 & _MASK
            d = (d ^ c) & _MASK
    a, b = _pair(a, c), _pair(d, b)
    return a ^ b, _pair(b, a)


def _hash_long(text: bytes, x: int, y: int) -> tuple[int, int]:
    size = len(text)
    z = size * HASH_K1
    first = rotate(y ^ HASH_K1, 49) * HASH_K1 + fetch(text, 0)
    v = first & _MASK, (rotate(first, 42) * HASH_K1 + fetch(text, 8)) & _MASK
    w = rotate(y + z, 35) * HASH_K1 + x & _MASK, rotate(x + fetch(text, 88), 53) * HASH_K1 & _MASK
    end = size // _BLOCK * _BLOCK
    for start in cancellable(range(0, end, 64)):
        x = rotate(x + y + v[0] + fetch(text, start + 8), 37) * HASH_K1
        y = rotate(y + v[1] + fetch(text, start + 48), 42) * HASH_K1
        x = (x ^ w[1]) & _MASK
        y += v[0] + fetch(text, start + 40)
        z = rotate(z + w[0], 33) * HASH_K1
        v = weak_hash_32(text, start, v[1] * HASH_K1, x + w[0])
        w = weak_hash_32(text, start + 32, z + w[1], y + fetch(text, start + 16))
        x, z = z & _MASK, x
    return _finish(text, size - end, (x, y & _MASK, z), v, w)


def _finish(
    text: bytes, rest: int, state: tuple[int, int, int], v: tuple[int, int], w: tuple[int, int]
) -> tuple[int, int]:
    """Mix in the last bytes, in pieces of 32 from the end."""
    x, y, z = state
    x += rotate(v[0] + z, 49) * HASH_K0
    y = y * HASH_K0 + rotate(w[1], 37)
    z = z * HASH_K0 + rotate(w[0], 27)
    w, v = (w[0] * 9, w[1]), (v[0] * HASH_K0, v[1])
    for done in range(32, rest + 32, 32):
        start = len(text) - done
        y = rotate(x + y, 42) * HASH_K0 + v[1]
        w = w[0] + fetch(text, start + 16), w[1]
        x = x * HASH_K0 + w[0]
        z += w[1] + fetch(text, start)
        w = w[0], w[1] + v[0]
        v = weak_hash_32(text, start, v[0] + z, v[1])
        v = v[0] * HASH_K0, v[1]
    x, y = _pair(x, v[0]), _pair(y + z, w[0])
    return _pair(x + v[1], w[1]) + y & _MASK, _pair(x + w[1], y + v[1])
