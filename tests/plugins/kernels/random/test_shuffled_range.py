"""Permuting many indices together equals permuting them one by one."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.random import _index_shuffle
from graphmill_plugins.kernels.random._index_shuffle import (
    index_shuffle,
    shuffled_indices,
    shuffled_range,
)

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


@pytest.mark.parametrize(
    ("largest", "count"),
    [(0, 3), (7, 0), (7, 1), (255, 3), (9999, 200), (65535, 200), (65536, 70), (2**40, 200)],
)
def test_shuffled_indices_are_index_shuffle_of_each_index(largest, count):
    indices = np.random.default_rng(1).integers(0, largest, count, np.uint64, endpoint=True)
    alone = [index_shuffle(index, KEY, largest) for index in indices.tolist()]
    assert shuffled_indices(indices, KEY, largest).tolist() == alone


def test_one_index_below_a_small_bound_is_not_encrypted_alone(monkeypatch):
    calls = []
    monkeypatch.setattr(_index_shuffle, "_encrypted", _noting(_index_shuffle._encrypted, calls))
    shuffled_indices(np.array([3], np.uint64), KEY, 7)
    assert len(calls) == 1


def _noting(function, calls):
    def noted(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    return noted
