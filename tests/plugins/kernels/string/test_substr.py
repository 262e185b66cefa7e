"""Substrings of many strings, each at its own position, equal those taken one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels.string import basic

UNITS = {"BYTE": basic._byte_part, "UTF8_CHAR": basic._character_part}
ITEMS = st.one_of(
    st.text(st.sampled_from("aé北\U00010000"), max_size=5).map(str.encode),
    st.binary(max_size=4),
    st.text(st.sampled_from("abc"), min_size=60, max_size=70).map(str.encode),
)
LARGE = [2**31 - 1, -(2**31)]
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from(LARGE))
ROWS = st.lists(st.tuples(ITEMS, NUMBERS, NUMBERS), min_size=1, max_size=2 * basic._FEW_PARTS)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@settings(deadline=None, max_examples=100)
@given(rows=ROWS, few=st.sampled_from([0, basic._FEW_PARTS]), is_valid=st.booleans())
def test_substrings_equal_those_of_each_string(
    unit: str, dtype: type, rows: list[tuple[bytes, int, int]], few: int, is_valid: bool
) -> None:
    if is_valid:  # otherwise nearly every draw has a position out of range
        rows = [
            (item, max(min(pos, len(item) // 4), -(len(item) // 4)), n) for item, pos, n in rows
        ]
    items, positions, lengths = map(list, zip(*rows, strict=True))
    call = (string_array(items), np.array(positions, dtype), np.array(lengths, dtype), unit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(basic, "_FEW_PARTS", few)
        try:
            expected = [UNITS[unit](*row) for row in rows]
        except errors.InvalidArgumentError as error:
            with pytest.raises(errors.InvalidArgumentError, match=re.escape(error.message)):
                basic.substr(*call)
        else:
            assert basic.substr(*call).tolist() == expected


@pytest.mark.parametrize("count", [1, 2 * basic._FEW_PARTS])
def test_one_position_serves_all_strings(count: int) -> None:
    found = basic.substr(
        string_array(["aébc".encode()] * count), np.int32(-3), np.int32(2), "UTF8_CHAR"
    )
    assert found.tolist() == ["éb".encode()] * count


@pytest.mark.parametrize("unit", UNITS)
def test_substrings_of_no_strings(unit: str) -> None:
    none = np.zeros((0, 3), np.int32)
    assert basic.substr(string_array([], (0, 3)), none, none, unit).shape == (0, 3)
