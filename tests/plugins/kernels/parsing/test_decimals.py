"""Batch parsing of decimals is bitwise equal to Python's."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphmill_plugins.kernels.packed_strings import PackedStrings
from graphmill_plugins.kernels.parsing._decimals import parse_decimals

FORM = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)")


@given(
    st.one_of(
        st.lists(st.text("0123456789.+-e_ \0", max_size=size), max_size=20) for size in (9, 20)
    )
)
def test_parsed_value_is_exact_or_none(texts):
    items = [text.encode() for text in texts]
    found = parse_decimals(PackedStrings(items))
    for item, number, is_parsed in zip(items, found.floats(), found.is_parsed, strict=True):
        if is_parsed:
            assert np.float64(item).tobytes() == number.tobytes()
        else:
            assert not (FORM.fullmatch(item) and len(item) < 16)


def test_signs_points_and_lengths_are_parsed():
    items = [b"-0", b"+1.25", b".5", b"5.", b"123456789012345", b"1234567.12345678", b"-12345678.5"]
    found = parse_decimals(PackedStrings(items))
    assert found.is_parsed.all()
    assert found.floats().tolist() == [float(item) for item in items]
    assert np.signbit(found.floats()[0])


def test_invalid_or_too_long_numbers_are_not_parsed():
    items = [b"", b".", b"-", b"1..2", b"12345678901234567", b"9999999999999999", b"--1", b" 1"]
    assert not parse_decimals(PackedStrings(items)).is_parsed.any()
