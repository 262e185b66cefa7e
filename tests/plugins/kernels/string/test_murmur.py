"""Batched hashes equal single ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.string._murmur import murmur_hashes
from graphmill_plugins.kernels.string.hash import hash64


@given(st.lists(st.binary(max_size=40), max_size=40))
def test_batch_equals_single_calls(items: list[bytes]) -> None:
    assert murmur_hashes(items, 7, lambda item: hash64(item, 7)).tolist() == [
        hash64(item, 7) for item in items
    ]


def test_long_and_empty_strings_have_their_hashes() -> None:
    items = [b"", b"a" * 255, b"b" * 256, b"c" * 257, b"d" * 1000]
    assert murmur_hashes(items, 7, lambda item: hash64(item, 7)).tolist() == [
        hash64(item, 7) for item in items
    ]


def test_few_long_strings_among_short_ones_have_their_hashes() -> None:
    items = [bytes([65 + index % 26]) * (8 + index % 9) for index in range(100)]
    items[3] = items[97] = b"x" * 250
    assert murmur_hashes(items, 7, lambda item: hash64(item, 7)).tolist() == [
        hash64(item, 7) for item in items
    ]
