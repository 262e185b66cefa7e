"""SipHash of many strings equals the function of its authors, string by string."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.string import _sip_hash
from graphmill_plugins.kernels.string._sip_hash import sip_hashes

KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
MASK = (1 << 64) - 1


def reference(text: bytes, key: tuple[int, int] = KEY) -> int:
    """Return SipHash-2-4, implemented as in the paper."""
    initial = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
    v = [start ^ part for start, part in zip(initial, key * 2, strict=True)]
    size = len(text) // 8 * 8 + 7
    padded = text + bytes(size - len(text)) + bytes([len(text) % 256])
    for first, last in pairwise(range(0, len(padded) + 1, 8)):
        word = int.from_bytes(padded[first:last], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        v[0] = v[0] + v[1] & MASK
        v[1] = rotated(v[1], 13) ^ v[0]
        v[0] = rotated(v[0], 32)
        v[2] = v[2] + v[3] & MASK
        v[3] = rotated(v[3], 16) ^ v[2]
        v[0] = v[0] + v[3] & MASK
        v[3] = rotated(v[3], 21) ^ v[0]
        v[2] = v[2] + v[1] & MASK
        v[1] = rotated(v[1], 17) ^ v[2]
        v[2] = rotated(v[2], 32)


def rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & MASK


@pytest.mark.parametrize("lanes", [0, 3, 1000])
@given(items=st.lists(st.binary(max_size=70), max_size=12))
def test_strings_of_any_sizes_have_their_hashes(lanes: int, items: list[bytes]) -> None:
    """Strings of any sizes have equal hashes by arrays, by integers, and by both."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_sip_hash, "_MAX_LANES", lanes)
        found = sip_hashes(items, *KEY)
    assert found.dtype == np.uint64
    assert found.tolist() == [reference(item) for item in items]


def test_words_are_gathered_table_by_table(monkeypatch: pytest.MonkeyPatch) -> None:
    items = [bytes(range(size)) for size in range(0, 200, 7)]
    expected = [reference(item) for item in items]
    for words, lanes in ((1, 0), (64, 0), (64, 5), (1, 1000)):
        monkeypatch.setattr(_sip_hash, "_TABLE_WORDS", words)
        monkeypatch.setattr(_sip_hash, "_MAX_LANES", lanes)
        assert sip_hashes(items, *KEY).tolist() == expected


def test_a_long_string_among_short_ones_has_its_hash() -> None:
    items = [b"short"] * 300 + [b"long" * 2000]
    assert sip_hashes(items, *KEY).tolist() == [reference(item) for item in items]
