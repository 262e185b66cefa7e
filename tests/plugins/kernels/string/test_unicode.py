"""Strings in encodings without state are decoded together, as they are one by one."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.string import unicode
from graphmill_plugins.kernels.string.unicode import unicode_encode, unicode_transcode

CODECS = ["ascii", "utf-8", "utf-16", "utf-16-be", "utf-16-le", "utf-32", "utf-32-be"]
TEXTS = st.text(st.sampled_from("ab\0\n\x1f\x7fé\u07ff\u0800北\ufeff\ufffd\U00010000\U0010ffff"))
POLICIES = st.builds(
    unicode._Policy,
    st.sampled_from(["replace", "ignore", "strict"]),
    st.sampled_from([0xFFFD, 65, 0x0A, 0x10FFFF]),
    st.booleans(),
)


@st.composite
def strings_of(draw: st.DrawFn, codec: str) -> list[bytes]:
    """Draw well-formed and malformed strings of an encoding."""
    well_formed = TEXTS.map(lambda text: text.encode(codec, "ignore"))
    part = well_formed | st.binary(max_size=5)
    return draw(st.lists(st.lists(part, max_size=4).map(b"".join), max_size=5))


def one_by_one(items: list[bytes], codec: str, policy: unicode._Policy) -> list[list[object]]:
    rows = [unicode._characters(item, codec, policy) for item in items]
    lengths = np.cumsum([0, *map(len, rows)]).tolist()
    return [lengths, [c for row in rows for c, _ in row], [o for row in rows for _, o in row]]


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), policy=POLICIES)
def test_decoding_together_equals_decoding_one_by_one(
    codec: str, data: st.DataObject, policy: unicode._Policy
) -> None:
    items = data.draw(strings_of(codec))
    try:
        expected = one_by_one(items, codec, policy)
    except errors.InvalidArgumentError as error:
        with pytest.raises(errors.InvalidArgumentError, match=re.escape(error.message)):
            unicode._decode_all(string_array(items), codec, policy, np.dtype(np.int64))
        return
    found = unicode._decode_all(string_array(items), codec, policy, np.dtype(np.int64))
    assert [value.tolist() for value in found] == expected
    assert [value.dtype for value in found] == [np.int64, np.int32, np.int64]


@pytest.mark.parametrize("codec", CODECS)
@settings(deadline=None, max_examples=40)
@given(data=st.data(), policy=POLICIES)
def test_transcoding_equals_encoding_the_decoded_characters(
    codec: str, data: st.DataObject, policy: unicode._Policy
) -> None:
    items = data.draw(strings_of(codec))
    transcode = unicode_transcode(codec, "UTF-16-BE", *policy)
    try:
        rows = [unicode._characters(item, codec, policy) for item in items]
    except errors.InvalidArgumentError as error:
        with pytest.raises(errors.InvalidArgumentError, match=re.escape(error.message)):
            transcode(string_array(items))
        return
    expected = ["".join(chr(code) for code, _ in row).encode("utf-16-be") for row in rows]
    assert transcode(string_array(items)).tolist() == expected


@pytest.mark.parametrize("codec", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(st.lists(st.sampled_from([0, 65, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000]))),
    bad=st.lists(st.sampled_from([-1, 0xD800, 0xDFFF, 0x110000, -(2**31)]), max_size=3),
    mode=st.sampled_from(["replace", "ignore"]),
)
def test_rows_are_encoded_with_each_invalid_code_point_replaced_or_dropped(
    codec: str, rows: list[list[int]], bad: list[int], mode: str
) -> None:
    rows = [*rows, bad, [66, *bad]]
    codes = np.array([code for row in rows for code in row], np.int32)
    splits = np.cumsum([0, *map(len, rows)])
    instead = [0x63] if mode == "replace" else []
    valid = [[x for code in row for x in (instead if code in bad else [code])] for row in rows]
    expected = ["".join(map(chr, row)).encode(codec) for row in valid]
    assert unicode_encode(codes, splits, mode, codec, 0x63).tolist() == expected
    if bad:
        with pytest.raises(errors.InvalidArgumentError, match="out of range for Unicode"):
            unicode_encode(codes, splits, "strict", codec, 0x63)


def test_single_characters_are_encoded_alone() -> None:
    # All rows have one character, then the same number in rows of other lengths.
    codes = np.array([0x41, 0xE9, 0x5317, 0x1F600], np.int32)
    for splits in ([0, 1, 2, 3, 4], [0, 0, 2, 3, 4], [0, 2, 2, 2, 4]):
        expected = ["".join(map(chr, codes[a:b])).encode() for a, b in pairwise(splits)]
        rows = unicode_encode(codes, np.array(splits), "strict", "UTF-8", 65)
        assert rows.tolist() == expected


def test_a_long_malformed_string_takes_time_in_proportion() -> None:
    # Each malformed byte copied the rest of the string once, which would take hours here.
    transcode = unicode_transcode("utf-8", "UTF-8", "replace", 65, False)
    assert transcode(string_array([b"\xff" * 1_000_000])).item() == b"A" * 1_000_000
