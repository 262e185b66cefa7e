"""N-grams of many rows, joined in one pass, equal those of each row."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
import pytest

from graphmill_plugins.kernels.string import split
from graphmill_plugins.kernels.string.split import string_ngrams

pytestmark = pytest.mark.divided

ROWS = [[b"a", b"b", b"c", b"d"], [], [b"e"], [b"f", b"g", b"h"], [b"i", b"j"], []]


def ngrams(rows, widths, pad_width, *, preserves_short):
    data = np.array([item for row in rows for item in row] + [None], object)[:-1]
    splits = np.array(list(accumulate(map(len, rows), initial=0)))
    found, ends = string_ngrams(data, splits, "-", widths, "<", ">", pad_width, preserves_short)
    return [found[start:stop].tolist() for start, stop in pairwise(ends)]


@pytest.mark.parametrize("widths", [(1,), (2, 3), (3, 1, 3), (4,), ()])
@pytest.mark.parametrize("pad_width", [0, 1, -1])
@pytest.mark.parametrize("preserves_short", [False, True])
@pytest.mark.parametrize("most", [16, 0])
def test_ngrams_of_many_rows_equal_those_of_each(
    monkeypatch, widths, pad_width, preserves_short, most
):
    monkeypatch.setattr(split, "_MAX_JOINED_WIDTH", most)
    monkeypatch.setattr(split, "_MIN_ROWS", 3)  # two rows are computed one by one
    together = ngrams(ROWS, widths, pad_width, preserves_short=preserves_short)
    alone = [  # beside another row, as a tensor without strings has no n-grams, not even of pads
        ngrams([row, [b"z"]], widths, pad_width, preserves_short=preserves_short)[0] for row in ROWS
    ]
    assert together == alone


@pytest.mark.parametrize("pad_width", [1, -1])
def test_a_tensor_without_strings_has_no_ngrams_of_pads(pad_width):
    assert ngrams([[], []], (1, 2), pad_width, preserves_short=False) == [[], []]


def test_ngrams_never_join_two_rows():
    rows = [[b"a", b"b"], [b"c", b"d"], [b"e"]]
    assert ngrams(rows, (2,), 0, preserves_short=False) == [[b"a-b"], [b"c-d"], []]
