"""Batched distances equal those of each pair."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.array import edit_distance as edit_distance_module
from graphmill_plugins.kernels.array.edit_distance import (
    _levenshtein,
    _levenshtein_by_bits,
    _levenshtein_of_all,
    _Sequences,
    edit_distance,
)

SEQUENCES = st.lists(st.integers(0, 3), max_size=7)


def _sequences(rows: list[list[int]]) -> _Sequences:
    places = [index for index, row in enumerate(rows) for _ in row]
    return _Sequences.of(
        np.array(places, np.int64),
        np.array([item for row in rows for item in row], np.int64),
        len(rows),
    )


@given(st.lists(st.tuples(SEQUENCES, SEQUENCES), min_size=1, max_size=5))
def test_vectorized_distances_equal_single_ones(pairs) -> None:
    first, second = (_sequences(list(side)) for side in zip(*pairs, strict=True))
    expected = [_levenshtein(a, b) for a, b in pairs]
    assert _levenshtein_of_all(first, second).tolist() == expected
    assert _levenshtein_by_bits(first, second).tolist() == expected


@pytest.mark.parametrize("length", [63, 64])
def test_patterns_fill_whole_words(length: int) -> None:
    random = np.random.default_rng(length)
    texts, patterns = (random.integers(0, 2, (9, length)) for _ in range(2))
    lengths = np.minimum(np.arange(9) * 8, length)
    expected = [
        _levenshtein(text[:short].tolist(), pattern.tolist())
        for text, pattern, short in zip(texts, patterns, lengths, strict=True)
    ]
    first, second = _Sequences(texts, lengths), _Sequences(patterns, np.full(9, length))
    assert _levenshtein_by_bits(first, second).tolist() == expected


def test_many_pairs_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    shape = np.array([50, 20])
    places = np.argwhere(np.ones(shape, bool))
    sides = [random.integers(0, 4, 1000) for _ in range(2)]
    parts = [part for side in sides for part in (places, side, shape)]
    whole = edit_distance(*parts, normalize=False)
    monkeypatch.setattr(edit_distance_module, "_MAX_COMPARED", 3000)
    np.testing.assert_array_equal(edit_distance(*parts, normalize=False), whole)


def _batch(rows: list[tuple[int, bytes]], dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Return sparse indices and values of (sequence, text with a byte for each element)."""
    places = [(row, column) for row, text in rows for column in range(len(text))]
    values = [text[column : column + 1] for _, text in rows for column in range(len(text))]
    if dtype is not object:
        values = [value[0] for value in values]
    return np.array(places, np.int64).reshape(-1, 2), np.array(values, dtype)


@pytest.mark.parametrize("dtype", [object, np.int64, np.float32])
@pytest.mark.parametrize("repeats", [1, 40])
def test_distances_of_sequences_in_any_order(dtype: type, repeats: int) -> None:
    first = _batch([(3, b"kitten" * repeats), (0, b"ab" * repeats)], dtype)
    second = _batch([(0, b"a" * repeats), (1, b"x"), (3, b"sitting" * repeats)], dtype)
    shape = np.array([4, 7 * repeats])
    distances = edit_distance(*first, shape, *second, shape, normalize=False)
    expected = [_levenshtein([*b"ab" * repeats], [*b"a" * repeats]), 1, 0]
    last = _levenshtein([*b"kitten" * repeats], [*b"sitting" * repeats])
    np.testing.assert_array_equal(distances, np.array([*expected, last], np.float32))


def test_distances_of_higher_rank_have_their_places() -> None:
    places = np.array([[1, 0, 2, 0], [0, 1, 1, 0]])
    shape = np.array([2, 2, 3, 1])
    none = np.zeros((0, 4), np.int64)
    values = np.array([5, 6])
    found = edit_distance(places, values, shape, none, values[:0], shape, normalize=True)
    expected = np.zeros((2, 2, 3), np.float32)
    expected[1, 0, 2] = expected[0, 1, 1] = np.inf
    np.testing.assert_array_equal(found, expected)


def test_a_sequence_outside_of_the_shape_is_named() -> None:
    places, values, shape = np.array([[0, 0], [2, 0]]), np.array([1, 2]), np.array([2, 1])
    with pytest.raises(errors.InternalError, match=r"group \[2\] is outside of the shape \[2\]"):
        edit_distance(places, values, shape, places, values, shape, normalize=True)


def test_long_sequence_errors_match_short_ones() -> None:
    """Distances of long sequences, with every third element wrong, are correct."""
    places = np.stack([np.zeros(60, np.int64), np.arange(60)], axis=1)
    values, shape = np.arange(60, dtype=np.float32), np.array([2, 60])
    wrong = np.where(np.arange(60) % 3 == 0, np.float32(np.nan), values)
    distances = edit_distance(places, values, shape, places, wrong, shape, normalize=True)
    np.testing.assert_allclose(distances, [1 / 3, 0])
