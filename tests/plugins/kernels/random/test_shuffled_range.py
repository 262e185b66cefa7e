"""Permuting many indices together equals permuting them one by one."""

from __future__ import annotations

import pytest

from graphmill_plugins.kernels.random._index_shuffle import index_shuffle, shuffled_range

KEY = (0x12345678, 0x9ABCDEF0, 0xFFFFFFFF)


@pytest.mark.parametrize("largest", [0, 1, 7, 255, 65536, 2**32 - 1, 2**40, 2**63 - 1])
@pytest.mark.parametrize("rounds", [4, 8])
def test_shuffled_range_is_index_shuffle_of_each_index(largest, rounds):
    start = max(largest - 300, 0)
    indices = range(start, min(largest, start + 300) + 1)
    alone = [index_shuffle(index, KEY, largest, rounds) for index in indices]
    assert shuffled_range(indices, KEY, largest, rounds) == alone


def test_shuffled_range_of_all_indices_is_a_permutation():
    assert sorted(shuffled_range(range(1000), KEY, 999)) == list(range(1000))
