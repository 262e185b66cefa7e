"""Hash kernels: StringToHashBucket, StringToHashBucketFast, StringToHashBucketStrong.

Semantics: tensorflow/core/kernels/string_to_hash_bucket_op.cc and string_to_hash_bucket_fast_op.h.
The hash functions are public: FarmHash's Fingerprint64 (github.com/google/farmhash, farmhashna),
MurmurHash64A with TensorFlow's seed, and SipHash-2-4. The functions here hash one string with
Python integers modulo 2**64; `_fingerprint`, `_murmur` and `_sip_hash` hash many at once.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import errors
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._strings import map_numbers
from graphmill_plugins.kernels.string._fingerprint import MAX_SCALAR_HASHES, fingerprints
from graphmill_plugins.kernels.string._murmur import murmur_hashes
from graphmill_plugins.kernels.string._sip_hash import sip_hashes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.spi import Value

_MASK = 0xFFFFFFFFFFFFFFFF
HASH_K0 = 0xC3A5C85C97CB3127
HASH_K1 = 0xB492B66FBE98F273
"""Multipliers of FarmHash."""
_MAX_SCALAR_BYTES = 640
_MAX_SCALAR_LONGEST = 12
"""Hashing strings one by one is faster up to so many bytes, or so many times the longest one's."""
_K2 = 0x9AE16A3B2F90404F
_FOUR_WORDS, _EIGHT_WORDS = struct.Struct("<4Q"), struct.Struct("<8Q")
_LONG_BYTES = 1 << 16
"""Size from which hashing one string takes long enough to end early with its step."""


def fetch(text: bytes, start: int) -> int:
    """Return the 64-bit integer that starts at a byte."""
    return int.from_bytes(text[start : start + 8], "little")


def _fetch32(text: bytes, start: int) -> int:
    return int.from_bytes(text[start : start + 4], "little")


def rotate(value: int, shift: int) -> int:
    """Rotate right; `value` may exceed 64 bits."""
    value &= _MASK
    return (value >> shift) | (value << (64 - shift)) & _MASK


def shift_mix(value: int) -> int:
    """Mix the upper bits of the low 64 into the lower ones; `value` may have more bits."""
    value &= _MASK
    return value ^ (value >> 47)


def hash_16(first: int, second: int, factor: int) -> int:
    """Return the hash of two 64-bit integers."""
    a = ((first ^ second) & _MASK) * factor & _MASK
    a ^= a >> 47
    b = ((second & _MASK) ^ a) * factor & _MASK
    b ^= b >> 47
    return b * factor & _MASK


def hash_to_16(text: bytes) -> int:
    """Return the hash of at most 16 bytes."""
    size = len(text)
    factor = _K2 + size * 2
    if size >= 8:
        a = fetch(text, 0) + _K2
        b = fetch(text, size - 8)
        c = rotate(b, 37) * factor + a
        d = (rotate(a, 25) + b) * factor
        return hash_16(c, d, factor)
    if size >= 4:
        return hash_16(size + (_fetch32(text, 0) << 3), _fetch32(text, size - 4), factor)
    if size > 0:
        y = text[0] + (text[size >> 1] << 8)
        z = size + (text[-1] << 2)
        return shift_mix(y * _K2 ^ z * HASH_K0) * _K2 & _MASK
    return _K2


def _hash_to_32(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a = fetch(text, 0) * HASH_K1
    b = fetch(text, 8)
    c = fetch(text, size - 8) * factor
    d = fetch(text, size - 16) * _K2
    first = rotate(a + b, 43) + rotate(c, 30) + d
    return hash_16(first, a + rotate(b + _K2, 18) + c, factor)


def _hash_to_64(text: bytes) -> int:
    size = len(text)
    factor = _K2 + size * 2
    a = fetch(text, 0) * _K2
    b = fetch(text, 8)
    c = fetch(text, size - 8) * factor
    d = fetch(text, size - 16) * _K2
    y = rotate(a + b, 43) + rotate(c, 30) + d
    z = hash_16(y, a + rotate(b + _K2, 18) + c, factor)
    e = fetch(text, 16) * factor
    f = fetch(text, 24)
    g = (y + fetch(text, size - 32)) * factor
    h = (z + fetch(text, size - 24)) * factor
    first = rotate(e + f, 43) + rotate(g, 30) + h
    return hash_16(first, e + rotate(f + a, 18) + g, factor)


def weak_hash_32(text: bytes, start: int, a: int, b: int) -> tuple[int, int]:
    """Return a weak hash of 32 bytes and two seeds."""
    w, x, y, z = _FOUR_WORDS.unpack_from(text, start)
    return _weak_hash(w, x, y, z, a, b)


def _weak_hash(w: int, x: int, y: int, z: int, a: int, b: int) -> tuple[int, int]:
    a += w
    b = rotate(b + a + z, 21)
    c = a
    a += x + y
    b += rotate(a, 44)
    return (a + z) & _MASK, (b + c) & _MASK


def _starts(end: int, size: int) -> Iterable[int]:
    """Return where the blocks of a string start; those of a long one end with the step."""
    starts = range(0, end, size)
    return starts if end < _LONG_BYTES else cancellable(starts)


def fingerprint64(text: bytes) -> int:
    """Return FarmHash's Fingerprint64, an unsigned 64-bit integer.

    Raises:
        CancelledError: the text is long, and the step was cancelled.
    """
    size = len(text)
    if size <= 16:
        return hash_to_16(text)
    if size <= 32:
        return _hash_to_32(text)
    if size <= 64:
        return _hash_to_64(text)
    x, y = 81, 81 * HASH_K1 + 113
    z = shift_mix(y * _K2 + 113) * _K2
    v, w = (0, 0), (0, 0)
    x = x * _K2 + fetch(text, 0)
    end = (size - 1) // 64 * 64
    blocks = _EIGHT_WORDS.iter_unpack(memoryview(text)[:end])
    for b0, b1, b2, b3, b4, b5, b6, b7 in blocks if end < _LONG_BYTES else cancellable(blocks):
        x = rotate(x + y + v[0] + b1, 37) * HASH_K1
        y = rotate(y + v[1] + b6, 42) * HASH_K1
        x = (x ^ w[1]) & _MASK
        y += v[0] + b5
        z = rotate(z + w[0], 33) * HASH_K1
        v = _weak_hash(b0, b1, b2, b3, v[1] * HASH_K1, x + w[0])
        w = _weak_hash(b4, b5, b6, b7, z + w[1], y + b2)
        z, x = x, z
    return _finish(text, x & _MASK, y & _MASK, z & _MASK, v, w)


def _finish(text: bytes, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int]) -> int:
    """Hash the last 64 bytes, which may overlap with bytes already hashed."""
    size = len(text)
    start = size - 64
    factor = HASH_K1 + ((z & 0xFF) << 1)
    w0 = w[0] + ((size - 1) & 63)
    v0 = v[0] + w0
    w0 += v0
    x = rotate(x + y + v0 + fetch(text, start + 8), 37) * factor
    y = rotate(y + v[1] + fetch(text, start + 48), 42) * factor
    x = (x ^ (w[1] * 9)) & _MASK
    y += v0 * 9 + fetch(text, start + 40)
    z = rotate(z + w0, 33) * factor
    v = weak_hash_32(text, start, v[1] * factor, x + w0)
    w = weak_hash_32(text, start + 32, z + w[1], y + fetch(text, start + 16))
    z, x = x, z
    first = hash_16(v[0], w[0], factor) + shift_mix(y) * HASH_K0 + z
    return hash_16(first, hash_16(v[1], w[1], factor) + x, factor)


_SEED = 0xDECAFCAFFE


def hash64(text: bytes, seed: int = _SEED) -> int:
    """Return MurmurHash64A of `text`, TensorFlow's `Hash64`."""
    factor = 0xC6A4A7935BD1E995
    state = seed ^ (len(text) * factor & _MASK)
    whole = len(text) & ~7
    for start in _starts(whole, 8):
        block = fetch(text, start) * factor & _MASK
        block = (block ^ (block >> 47)) * factor & _MASK
        state = (state ^ block) * factor & _MASK
    if len(text) > whole:
        state = (state ^ int.from_bytes(text[whole:], "little")) * factor & _MASK
    state = (state ^ (state >> 47)) * factor & _MASK
    return state ^ (state >> 47)


def fingerprints64(items: Sequence[bytes]) -> Any:
    """Return the Fingerprint64 of each string, as uint64."""
    if _are_few(items):
        return np.array([fingerprint64(item) for item in items], np.uint64)
    return fingerprints(items, fingerprint64)


def _are_few(items: Sequence[bytes]) -> bool:
    """Return whether hashing strings one by one is faster."""
    if len(items) > MAX_SCALAR_HASHES:
        return False
    sizes = [*map(len, items)]
    return sum(sizes) <= max(_MAX_SCALAR_BYTES, _MAX_SCALAR_LONGEST * max(sizes, default=0))


def _buckets(function: Callable[[bytes], int], value: Value, count: int) -> Value:
    return map_numbers(lambda item: function(item) % count, value, np.int64)


def _modulo(hashes: Any, count: int, value: Value) -> Value:
    """Return hashes modulo a number of buckets, in the shape of the strings."""
    return (hashes % np.uint64(count)).astype(np.int64).reshape(value.shape)


@kernel("StringToHashBucketFast", host=True)
def string_to_hash_bucket_fast(value: Value, num_buckets: int) -> Value:
    """Return Fingerprint64 modulo `num_buckets`."""
    items = value.ravel().tolist()
    if _are_few(items):
        return _buckets(fingerprint64, value, num_buckets)
    return _modulo(fingerprints(items, fingerprint64), num_buckets, value)


@kernel("_TensorToHashBucketFast", host=True)
def tensor_to_hash_bucket_fast(input: Value, num_buckets: int) -> Value:  # noqa: A002
    """Return Fingerprint64 of integers written in decimal, modulo `num_buckets`.

    Raises:
        InvalidArgumentError: the integers are unsigned.
    """
    if input.dtype.kind == "u":
        raise errors.InvalidArgumentError(f"Type not supported: {input.dtype}")
    texts = np.array([b"%d" % number for number in input.ravel().tolist()], object)
    return string_to_hash_bucket_fast(texts.reshape(input.shape), num_buckets)


@kernel("StringToHashBucket", host=True)
def string_to_hash_bucket(value: Value, num_buckets: int) -> Value:
    """Return TensorFlow's older hash modulo `num_buckets`."""
    if value.size <= MAX_SCALAR_HASHES:
        return _buckets(hash64, value, num_buckets)
    hashes = murmur_hashes(value.ravel().tolist(), _SEED, hash64)
    return _modulo(hashes, num_buckets, value)


@kernel("StringToHashBucketStrong", host=True)
def string_to_hash_bucket_strong(value: Value, num_buckets: int, key: tuple[int, ...]) -> Value:
    """Return the keyed hash modulo `num_buckets`."""
    if len(key) != 2:
        raise errors.InvalidArgumentError(f"Key must have 2 elements, got {len(key)}")
    hashes = sip_hashes(value.ravel().tolist(), key[0] & _MASK, key[1] & _MASK)
    return _modulo(hashes, num_buckets, value)
