"""Both forms of the CTC beam search, over arrays and prefix by prefix, have the same results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.nn.ctc import _beam_search


@st.composite
def searches(draw):
    """Return the arguments of a search; few distinct scores make many prefixes equally likely."""
    steps, sequences = draw(st.integers(0, 10)), draw(st.integers(1, 3))
    classes, width = draw(st.integers(1, 5)), draw(st.integers(1, 8))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    shape = steps, sequences, classes
    if draw(st.booleans()):
        logits = rng.integers(0, 3, shape).astype(np.float32)
    else:
        logits = rng.normal(scale=draw(st.sampled_from([0.5, 3, 10])), size=shape)
    lengths = rng.integers(0, steps + 1, sequences)
    return logits, lengths, width, draw(st.integers(1, width)), draw(st.booleans())


def outcome(few_prefixes, arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_beam_search, "_FEW_PREFIXES", few_prefixes)
        try:
            return _beam_search.beam_search(*arguments)
        except InvalidArgumentError as error:
            return error.message


@settings(deadline=None, max_examples=300)
@given(searches())
def test_both_forms_find_the_same_paths_with_equal_bits(arguments):
    assert outcome(1 << 20, arguments) == outcome(0, arguments)


@pytest.mark.parametrize("odd", [np.nan, -np.inf, np.inf])
def test_scores_that_are_not_finite_are_searched_in_arrays(odd):
    logits = np.zeros((3, 1, 3), np.float32)
    logits[1, 0, 1] = odd
    arguments = logits, np.array([3]), 2, 1, False
    with np.errstate(invalid="ignore"):
        assert repr(outcome(1 << 20, arguments)) == repr(outcome(0, arguments))


def test_a_few_prefixes_are_searched_one_by_one(monkeypatch):
    calls = []
    monkeypatch.setattr(
        _beam_search,
        "best_prefixes",
        lambda scores, width, trie: calls.append(scores.shape) or [(1, 0.0)] * width,
    )
    logits = np.zeros((2, 2, 3), np.float32)
    assert _beam_search.beam_search(logits, np.array([2, 1]), 4, 1, False) == [[([], 0.0)]] * 2
    assert sorted(calls) == [(1, 3), (2, 3)]
