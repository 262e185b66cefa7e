"""Batched distances equal those of each pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.array.edit_distance import (
    _levenshtein,
    _levenshtein_of_all,
    edit_distance,
)

ELEMENTS = st.integers(0, 3) | st.sampled_from([b"a", b"b"])
SEQUENCES = st.lists(ELEMENTS, max_size=7)


@given(st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=5))
def test_all_at_once_are_one_by_one(pairs) -> None:
    assert _levenshtein_of_all(pairs) == [_levenshtein(a, b) for a, b in pairs]


def test_long_sequence_errors_match_short_ones() -> None:
    """Distances of long sequences, with every third element wrong, are correct."""
    places = np.stack([np.zeros(60, np.int64), np.arange(60)], axis=1)
    values, shape = np.arange(60, dtype=np.float32), np.array([2, 60])
    wrong = np.where(np.arange(60) % 3 == 0, np.float32(np.nan), values)
    distances = edit_distance(places, values, shape, places, wrong, shape, normalize=True)
    np.testing.assert_allclose(distances, [1 / 3, 0])
