"""What samplers draw from: counts in a tree, and pairs of samples of which some are left out."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels.nn.sampling._count_tree import CountTree
from graphmill_plugins.kernels.nn.sampling._sampler import units_and_slots
from graphmill_plugins.kernels.random._stream import Numbers


@pytest.mark.parametrize("size", [1, 2, 8192, 8193, 300_001])
def test_tree_finds_what_cumulative_counts_find(size):
    tree, counts = CountTree(size), np.ones(size, np.int64)
    random = np.random.default_rng(size)
    for _ in range(3):
        learned = random.integers(0, size, 1000)
        tree.add(learned)
        np.add.at(counts, learned, 1)
        ends = np.cumsum(counts)
        numbers = np.r_[0, ends[-1] - 1, ends[:100] - 1, random.integers(0, ends[-1], 1000)]
        assert tree.total == ends[-1]
        assert tree.find(numbers).tolist() == np.searchsorted(ends, numbers, "right").tolist()
        assert tree.counts(learned).tolist() == counts[learned].tolist()


@pytest.mark.parametrize("size", [1, 6, 1 << 20, 3 << 30, (1 << 31) + 1])
def test_pairs_are_those_of_samples_drawn_one_by_one(size):
    words = np.random.default_rng(size).integers(0, 1 << 32, 201, np.uint32)
    units, slots, left = units_and_slots(words, size)
    stream = iter(words.tolist())
    numbers = Numbers(stream)
    expected = [(numbers.unit(), numbers.below(size)) for _ in slots]
    assert list(zip(units.tolist(), slots.tolist(), strict=True)) == expected
    assert left.tolist() == list(stream)[:1]  # a sample behind it has been left out
