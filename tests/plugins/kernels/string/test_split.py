"""Batch string splitting equals splitting one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.string.split import (
    _sparse,
    _split_at_byte,
    _split_space,
    _split_without_empty,
)

TEXTS = st.lists(st.text("ab _-", max_size=6).map(str.encode), min_size=1, max_size=12)


@pytest.mark.parametrize("delimiters", [b" ", b" _-"])
@given(items=TEXTS)
def test_splitting_omits_empty_pieces(delimiters, items):
    pattern = re.compile(b"[" + re.escape(delimiters) + b"]")
    rows = [list(filter(None, pattern.split(item))) for item in items]
    for actual, expected in zip(
        _split_without_empty(items, delimiters), _sparse(rows), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


@given(items=TEXTS)
def test_splitting_at_a_byte_keeps_empty_pieces(items):
    rows = [item.split(b"_") for item in items]
    for actual, expected in zip(_split_at_byte(items, b"_"), _sparse(rows), strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("item", "maxsplit", "expected"),
    [
        (b" a  b c ", 0, [b" a  b c "]),
        (b" a  b c ", 1, [b"a", b"b c "]),
        (b" a  b c ", 3, [b"a", b"b", b"c", b""]),
        (b" a  b c ", 9, [b"a", b"b", b"c"]),
        (b"a\t", 1, [b"a", b""]),
        (b" \n", 2, []),
    ],
)
def test_rest_after_the_last_split_at_white_space_is_a_part(item, maxsplit, expected):
    assert _split_space(item, maxsplit) == expected
